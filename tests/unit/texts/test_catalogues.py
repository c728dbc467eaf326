"""The catalogues of all languages: the same messages with the same parameters, each in one place."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fluent.syntax import FluentParser, ast
from fluent.syntax.visitor import Visitor

from loaderwatch import texts

FOLDER = Path(texts.__file__).parent


class _Names(Visitor):
    """Collects the parameters and messages that a pattern names."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_VariableReference(self, node: Any) -> None:
        self.found.add(f"${node.id.name}")

    def visit_MessageReference(self, node: Any) -> None:
        self.found.add(node.id.name)


def entries(language: str) -> list[Any]:
    parsed = [FluentParser().parse(path.read_text()) for path in sorted((FOLDER / language).glob("*.ftl"))]
    return [entry for resource in parsed for entry in resource.body]


def messages(language: str) -> dict[str, Any]:
    return {entry.id.name: entry for entry in entries(language) if isinstance(entry, ast.Message)}


def names_in(
    language: str, message: str, known: dict[str, Any], seen: frozenset[str] = frozenset()
) -> set[str]:
    """The parameters of a message, with those of the messages that it refers to."""
    visitor = _Names()
    visitor.visit(known[message])
    found: set[str] = set()
    for name in visitor.found:
        if name.startswith("$"):
            found.add(name)
        elif name not in seen:
            found |= names_in(language, name, known, seen | {message})
    return found


@pytest.mark.parametrize("language", texts.LANGUAGES)
def test_every_message_can_be_read_and_stands_once(language: str) -> None:
    found = entries(language)
    assert [entry.content for entry in found if isinstance(entry, ast.Junk)] == []
    ids = Counter(entry.id.name for entry in found if isinstance(entry, ast.Message | ast.Term))
    assert [name for name, times in ids.items() if times > 1] == []
    known = messages(language)
    for name in known:
        names_in(language, name, known)  # every message that it refers to is there


@pytest.mark.parametrize("language", [each for each in texts.LANGUAGES if each != texts.SOURCE])
def test_a_language_says_all_of_it(language: str) -> None:
    """Phrases that only one language needs are its own matter; what a rule names has parts, or is named as a parameter."""
    source, other = messages(texts.SOURCE), messages(language)
    source = {name: each for name, each in source.items() if each.attributes}
    assert set(source) - set(other) == set()
    parts = {
        name: {part.id.name for part in source[name].attributes}
        ^ {part.id.name for part in other[name].attributes}
        for name in source
    }
    assert {name: differing for name, differing in parts.items() if differing} == {}


@pytest.mark.parametrize("language", [each for each in texts.LANGUAGES if each != texts.SOURCE])
def test_a_language_needs_no_parameter_that_the_source_does_not_have(language: str) -> None:
    source, other = messages(texts.SOURCE), messages(language)
    asked = {
        name: names_in(language, name, other) - names_in(texts.SOURCE, name, source)
        for name, message in source.items()
        if message.attributes
    }
    assert {name: more for name, more in asked.items() if more} == {}
