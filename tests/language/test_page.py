"""The page's messages: equal in both languages, all used, with the parameters they need, and no others."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pytest
from fluent.syntax import FluentParser, ast
from fluent.syntax.visitor import Visitor

ROOT: Final = Path(__file__).resolve().parents[2]
LANGUAGES: Final = ("en", "zh")
FILES: Final = ("charts.ftl", "page.ftl", "panels.ftl")
OF_PYTHON: Final = {"Python", "Thread", "Current", "{}:{} in {}", "True", "False"}
"""Words of Python and of its stacks, which are the same in every language."""
needs_acorn = pytest.mark.skipif(
    shutil.which("node") is None or not (ROOT / "node_modules" / "acorn").exists(),
    reason="node and acorn read the page's modules: npm ci has not installed them",
)


class _References(Visitor):
    """Collects the parameters and messages that a pattern names."""

    def __init__(self) -> None:
        self.params: set[str] = set()
        self.shown: set[str] = set()
        self.messages: set[str] = set()

    def visit_SelectExpression(self, node: Any) -> None:
        """A variable that chooses between variants is needed, and not shown."""
        if isinstance(node.selector, ast.VariableReference):
            self.params.add(node.selector.id.name)
        else:
            self.visit(node.selector)
        for variant in node.variants:
            self.visit(variant)

    def visit_VariableReference(self, node: Any) -> None:
        self.params.add(node.id.name)
        self.shown.add(node.id.name)

    def visit_MessageReference(self, node: Any) -> None:
        self.messages.add(node.id.name)


def entries(language: str, file: str) -> list[Any]:
    """The entries of one catalogue of the page."""
    return list(FluentParser().parse((ROOT / "web" / "lang" / language / file).read_text()).body)


@lru_cache
def references(language: str) -> dict[str, _References]:
    """What each message of a language names."""
    found = {}
    for file in FILES:
        for entry in entries(language, file):
            if isinstance(entry, ast.Message):
                found[entry.id.name] = _References()
                found[entry.id.name].visit(entry)
    return found


def params_of(message: str, language: str) -> set[str]:
    """The parameters of a message, with those of the messages in it."""
    own = references(language)[message]
    return own.params.union(*(params_of(each, language) for each in own.messages))


def shown_by(message: str, language: str) -> set[str]:
    """The parameters that are shown, without those that only select a variant, such as the plural."""
    own = references(language)[message]
    return own.shown.union(*(shown_by(each, language) for each in own.messages))


@lru_cache
def page() -> dict[str, Any]:
    """What the page's modules say: see ``page_messages.mjs``."""
    done = subprocess.run(
        ["node", "tests/language/page_messages.mjs"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("file", FILES)
def test_both_languages_have_the_same_messages(file: str) -> None:
    assert sorted(path.name for path in (ROOT / "web" / "lang" / "zh").iterdir()) == list(FILES)
    named = []
    for language in LANGUAGES:
        found = entries(language, file)
        assert isinstance(found[0], ast.ResourceComment), "a catalogue begins by saying what is in it"
        assert [entry.content for entry in found if isinstance(entry, ast.Junk)] == []
        named.append([entry.id.name for entry in found if isinstance(entry, ast.Message)])
        assert [name for name, times in Counter(named[-1]).items() if times > 1] == []
    assert named[0] == named[1], "in the same order, so that both can be read beside each other"


def test_both_languages_show_the_same_parameters() -> None:
    differing = {
        message: (params_of(message, "zh") - params_of(message, "en"))
        | (shown_by(message, "en") - params_of(message, "zh"))
        for message in references("en")
    }
    assert {message: params for message, params in differing.items() if params} == {}


def test_chinese_messages_are_chinese() -> None:
    """A message without a Chinese character has no two English words in a row."""
    texts = {
        entry.id.name: re.sub(r"\{[^{}]*\}", "", entry.value.elements[0].value)
        for file in FILES
        for entry in entries("zh", file)
        if isinstance(entry, ast.Message)
        and entry.value is not None
        and len(entry.value.elements) == 1
        and isinstance(entry.value.elements[0], ast.TextElement)
    }
    assert [
        name
        for name, text in texts.items()
        if not re.search("[\u4e00-\u9fff]", text) and re.search(r"\b[a-z]{3,} [a-z]{2,}\b", text)
    ] == []


@needs_acorn
def test_the_page_names_messages_that_are_there() -> None:
    calls = page()["calls"]
    assert len(calls) > 40
    assert [
        (call["where"], message)
        for call in calls
        for message in call["ids"] or ()
        if message not in references("en")
    ] == []
    assert [call["where"] for call in calls if call["odd"]] == [], (
        "an id is a text, or stands in a table as its `message`"
    )
    assert [call["where"] for call in calls if call["at_import"]] == [], "the catalogues are not loaded yet"


@needs_acorn
def test_each_message_is_said_somewhere() -> None:
    html = re.findall(r'data-message="([^"]*)"', (ROOT / "web" / "index.html").read_text())
    within = {name for each in references("en").values() for name in each.messages}
    assert references("en").keys() - page()["named"].keys() - within - set(html) == set()
    assert set(html) <= references("en").keys()


@needs_acorn
def test_a_message_is_given_the_parameters_that_it_needs() -> None:
    wrong = [
        (call["where"], sorted(params_of(message, "en") ^ set(call["params"])))
        for call in page()["calls"]
        if call["params"] is not None
        for message in call["ids"] or ()
        if params_of(message, "en") - set(call["params"])
        or set(call["params"]).difference(*(params_of(each, "en") for each in call["ids"]))
    ]
    assert wrong == []


@needs_acorn
def test_no_sentence_is_written_in_the_code() -> None:
    assert page()["sentences"].keys() - OF_PYTHON == set()
