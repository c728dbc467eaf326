"""The parser of the command line. Its help comes from the message catalogues, in the reader's language."""

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

    The message's part ``about`` describes the command. The help of ``--hang-after`` is its part
    ``hang-after``, or that part of ``SHARED``. ``params`` are the values that the message needs.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, formatter_class=_Formatter, add_help=False)
        self.add_argument("-h", "--help", action="help")
        self.params: dict[str, Param] = {}
        vars(self)["color"] = False  # of Python 3.14

    @property
    def message(self) -> str:
        """The id of the command's message."""
        return "-".join(["command", *self.prog.split()[1:]])

    def format_help(self) -> str:
        """Return the help. It is looked up only here, because most commands show none."""
        self.description = self._said(self.message, "about")
        self._optionals.title = in_own_language("options")
        self._positionals.title = in_own_language("positional-arguments")
        for action in self._actions:
            if action.help is None:
                name = part_of(action)
                help_text = self._said(self.message, name) or self._said(SHARED, name)
                action.help = help_text.replace("%", "%%")  # else argparse would expand percent signs
            for command in getattr(action, "_choices_actions", ()):
                command.help = self._said(f"{self.message}-{command.dest}")
        return super().format_help()

    def _said(self, message: str, part: str | None = None) -> str:
        return say(Text(message, self.params, part), own_language())


def part_of(action: argparse.Action) -> str:
    """Return the part of a message with an argument's help: ``hang-after`` for ``--hang-after``."""
    long = [option.removeprefix("--") for option in action.option_strings if option.startswith("--")]
    return [*long, action.dest.replace("_", "-")][0]


class _Formatter(argparse.HelpFormatter):
    """Starts the usage line with the reader's word for it."""

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[Any],
        prefix: str | None = None,
    ) -> None:
        if prefix is None:
            word = in_own_language("usage")
            prefix = f"{word} " if word.isascii() else word
        super().add_usage(usage, actions, groups, prefix)
