"""The help of the command line: one sentence per argument in each language, and none without argument."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest

from loaderwatch.cli import COMMANDS, build_parser, main
from loaderwatch.cli.parser import SHARED, CommandParser, part_of
from tests.unit.texts.test_catalogues import messages

HELPLESS = {
    "command-serve": {"started-by"},
    "command-run": {"command"},
    "command-doctor": {"target"},
    "command-tune": {"target"},
}
"""Arguments without help: the metavar of a target says it all, and one is not for people."""


def parsers() -> Iterator[CommandParser]:
    """The parser of the command line, of each command, and of each action of a command."""
    yield build_parser([])
    left = [commands_of(build_parser([name]))[name] for name, _ in COMMANDS]
    while left:
        parser = left.pop()
        left += commands_of(parser).values()
        yield parser


def commands_of(parser: argparse.ArgumentParser) -> dict[str, CommandParser]:
    """The parsers of a parser's commands, by their names."""
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return {name: each for action in actions for name, each in action.choices.items()}


def test_every_argument_has_help_and_all_help_is_of_an_argument() -> None:
    known = {name: {part.id.name for part in message.attributes} for name, message in messages("en").items()}
    asked: dict[str, set[str]] = {}
    for parser in parsers():
        parts = {
            part_of(action)
            for action in parser._actions
            if not isinstance(action, argparse._SubParsersAction)
        }
        asked.setdefault(parser.message, {"about"}).update(parts)
    helped = {name: parts for name, parts in known.items() if name.startswith("command") and name != SHARED}
    assert helped.keys() == asked.keys()
    shared = known[SHARED]
    assert {name: parts - asked[name] for name, parts in helped.items() if parts - asked[name]} == {}
    assert shared - {part for parts in asked.values() for part in parts} == set()
    without = {name: parts - helped[name] - shared for name, parts in asked.items()}
    assert {name: parts for name, parts in without.items() if parts} == HELPLESS


@pytest.mark.parametrize(
    "command", [[], *([command.name] for command in COMMANDS), ["notify", "test"], ["token", "rotate"]]
)
def test_help_is_in_the_readers_language(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOADERWATCH_LANGUAGE", "zh")
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith("用法：loaderwatch")
    assert "显示这段帮助后退出" in shown
    about = shown.partition("\n\n")[2].partition("\n\n")[0]
    assert re.search("[\u4e00-\u9fff]", about), about
