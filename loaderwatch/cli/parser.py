"""The parser of the command line. Its help stands in the catalogues of messages, so that it is in the reader's language."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any, Final

from loaderwatch.core.answers import Param, Text
from loaderwatch.texts import in_own_language, own_language, say

SHARED: Final = "command-arguments"
"""The message with the help of arguments that several commands have."""


class CommandParser(argparse.ArgumentParser):
    """A parser whose help is the message of its command: ``command-analyze`` for ``loaderwatch analyze``.

    The message's part ``about`` describes the command. The help of ``--hang-after`` is its part ``hang-after``, or that of ``SHARED``.
    ``params`` are the values that the message needs.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, formatter_class=_Formatter, add_help=False)
        self.add_argument("-h", "--help", action="help")
        self.params: dict[str, Param] = {}
        vars(self)["color"] = False  # of Python 3.14

    @property
    def message(self) -> str:
        """Return the id of the command's message."""
        return "-".join(["command", *self.prog.split()[1:]])

    def format_help(self) -> str:
        """Return the help; it is looked up only now, because most commands show none."""
        self.description = self._said(self.message, "about")
        self._optionals.title = in_own_language("options")
        self._positionals.title = in_own_language("positional-arguments")
        for action in self._actions:
            if action.help is None:
                name = part_of(action)
                said = self._said(self.message, name) or self._said(SHARED, name)
                action.help = said.replace("%", "%%")  # argparse would fill in what follows a percent sign
            for command in getattr(action, "_choices_actions", ()):
                command.help = self._said(f"{self.message}-{command.dest}")
        return super().format_help()

    def _said(self, message: str, part: str | None = None) -> str:
        return say(Text(message, self.params, part), own_language())


def part_of(action: argparse.Action) -> str:
    """Return the part of a message that is the help of an argument: ``hang-after`` for ``--hang-after``."""
    long = [option.removeprefix("--") for option in action.option_strings if option.startswith("--")]
    return [*long, action.dest.replace("_", "-")][0]


class _Formatter(argparse.HelpFormatter):
    """Begins the line of usage with the reader's word for it."""

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[Any],
        prefix: str | None = None,
    ) -> None:
        if prefix is None:
            said = in_own_language("usage")
            prefix = f"{said} " if said.isascii() else said
        super().add_usage(usage, actions, groups, prefix)
