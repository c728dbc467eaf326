"""The catalogues of all languages: the same messages with the same parameters, each in one place, and all in that language."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pytest
from fluent.syntax import FluentParser, ast
from fluent.syntax.visitor import Visitor

from loaderwatch import texts
from loaderwatch.core.answers import Text
from loaderwatch.texts.formats import cpus, listing
from tests.scenarios.words import golden

FOLDER = Path(texts.__file__).parent
NO_SENTENCE: Final = re.compile(r"`[^`]*`|“[^”]*”|[^\s（：]+:\d+ in [A-Za-z0-9_.<>]+")
"""What is quoted, and a line of code with its function."""
ENGLISH_WORDS: Final = re.compile(
    r"(?<![\w./`=(-])[A-Za-z][A-Za-z']+(?:,? +[A-Za-z][A-Za-z']+)+(?![\w./`=(-])"
)
"""Two words or more in a row, neither of which is part of code or of a path."""
TERMS: Final = {
    *("Hugging Face", "OOM kill", "OOM killer", "docker run", "control group"),
    *("Python list", "CUDA graph", "bus error", "busy handler", "daemon worker", "pin memory", "row group"),
}
"""Names and terms that Chinese texts say in English."""
IN_PARTS: Final = ("verdict", "do")
"""Lines that are put together from translated parts of English sentences, as long as a verdict is no message: from three words on."""


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


def _sentences(block: str) -> Iterator[tuple[str, str]]:
    """Yield the sentences of one recording in ``words.zh.txt``, each with what it is: its title, its cause."""
    for line in block.splitlines():
        what, _, said = line.strip().partition(": ")
        what = what.partition(" (")[0]
        if what in ("title", "cause", "advice", *IN_PARTS):
            yield what, said
        elif what.startswith("under it"):
            yield what, said.partition("] ")[2]


def english_in(what: str, said: str) -> list[str]:
    """The English words in a row that a Chinese sentence has left."""
    found = (match[0] for match in ENGLISH_WORDS.finditer(NO_SENTENCE.sub("", said)))
    least = 3 if what in IN_PARTS else 2
    return [words for words in found if words not in TERMS and len(words.split()) >= least]


def test_no_english_is_left_in_what_is_said_of_recordings_in_chinese() -> None:
    recordings = golden("zh")
    sentences = [(name, *each) for name, block in recordings.items() for each in _sentences(block)]
    assert len(sentences) > 3 * len(recordings)
    left = {(name, what): english_in(what, said) for name, what, said in sentences}
    assert {where: words for where, words in left.items() if words} == {}


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("rank 0 在等 rank 1：2 workers deliver 9.8 batches/s, the model could take 42。", "workers deliver"),
        ("设置 num_workers=3 (2 usable CPUs) 和 persistent_workers=True。", "usable CPUs"),
        ("worker 0 工作时停在 data.py:42 in load，见其堆栈：“No space left on device”，`ps -o pid`。", None),
    ],
)
def test_what_is_english(said: str, left: str | None) -> None:
    assert next(iter(english_in("cause", said)), None) == left


@pytest.mark.parametrize("language", texts.LANGUAGES)
def test_a_number_that_is_not_known_stays_so_when_it_was_stored(language: str) -> None:
    text = Text("page-cache-fills", {"early_s": float("nan"), "late_s": 1.0}, "because")
    stored = msgspec.json.decode(msgspec.json.encode(text), type=Text)
    assert stored.params["early_s"] is None
    assert texts.say(stored, language) == texts.say(text, language)
    assert ("an unknown time" if language == "en" else "未知时间") in texts.say(text, language)


def test_chinese_has_no_space_between_its_own_characters() -> None:
    assert listing(["3", "5"], "zh") == "3 和 5"
    assert listing(["第 3 个样本", "第 5 个样本"], "zh") == "第 3 个样本和第 5 个样本"
    assert listing(list("012345"), "zh") == "0、1、2 和另外 3 个"
    assert (cpus(2, "zh"), cpus(2, "zh", "可用 CPU")) == ("2 个 CPU", "2 个可用 CPU")


def nested(depth: int) -> Text:
    text = Text("as-written", {"text": "deep"})
    for _ in range(depth):
        text = Text("as-written", {"text": text})
    return text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(Text("a-message-of-tomorrow"), id="unknown"),
        pytest.param(Text("as-written", {"text": Text("a-message-of-tomorrow")}), id="unknown within"),
        pytest.param(Text("as-written"), id="a parameter is missing"),
        pytest.param(Text("verdict-of-alert", {"title": 10**30}, "title"), id="a number without end"),
        pytest.param(Text("no-news", {"silent_s": "long", "last": None}, "title"), id="a word for a number"),
        pytest.param(nested(2_000), id="a message within a message within a message"),
        pytest.param(Text("as-written", {"text": "x" * 200_000}), id="endless"),
    ],
)
@pytest.mark.parametrize("language", texts.LANGUAGES)
def test_what_cannot_be_said_is_what_was_kept(text: Text, language: str) -> None:
    """Stored alerts and other servers may be of another version, and a recording may be made up."""
    assert texts.say(text, language, "It stands still.") == "It stands still."
    assert texts.say(text, language) == text.id
    assert not texts.is_sayable(text)


def test_a_misfit_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        texts.say(Text("finished-with-alert", {}, "title"))
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_long_texts_and_odd_numbers_are_said() -> None:
    long = "A long sentence of a script. " * 200
    first = Text("as-written", {"text": long})
    said = texts.say(
        Text("alert-cause", {"cause": Text("one-after-another", {"first": first, "next": first})})
    )
    assert len(said) > 10_000
    assert texts.say(Text("more-on-page", {"more": np.int64(3)})) == "3 more on the page"
    assert texts.say(Text("more-on-page", {"more": None}), "zh") == "页面上还有 未知 项"
    assert texts.say(Text("as-written", {"text": "two\nlines {of} it\u202e"})) == "two\nlines {of} it\u202e"
