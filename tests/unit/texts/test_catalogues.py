"""The catalogues of all languages: equal messages and parameters, each in one place and its language."""

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
from loaderwatch.texts.formats import FUNCTIONS, cpus, listing
from tests.scenarios.words import golden
from tests.unit.texts.messages_in_code import made_up, named, words

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
TERMS_OF_MESSAGES: Final = {
    *(
        "flight recorder",
        "PyTorch flight recorder",
        "memory bank",
        "GPU kernel",
        "CUDA fork",
        "DataLoader worker",
        "Apprise URL",
    ),
    *("bootstrapping phase", "unable to write to file'"),  # of what Python and PyTorch print themselves
    *("batch in", "the forward pass's buffer sync"),  # of code, and of a place in it
}
"""The same in messages that no recording has."""
IN_PARTS: Final = ("verdict", "do")
"""Lines made of translated parts of English sentences, while a verdict is no message: from three words on."""


class _Always(Visitor):
    """Collects the parameters and messages that a pattern needs whichever variants it chooses."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_Variant(self, node: Any) -> None:
        """Look at none: another one may be chosen."""

    def visit_VariableReference(self, node: Any) -> None:
        self.found.add(node.id.name)

    def visit_MessageReference(self, node: Any) -> None:
        self.found.add(f"message {node.id.name}")


class _Choices(Visitor):
    """Collects how a message uses its parameters: variants chosen by them and functions that format them."""

    def __init__(self) -> None:
        self.variants: dict[str, list[str]] = {}
        self.functions: dict[str, set[str]] = {}

    def visit_SelectExpression(self, node: Any) -> None:
        if isinstance(node.selector, ast.VariableReference):
            keys = [getattr(each.key, "name", None) or each.key.value for each in node.variants]
            self.variants.setdefault(node.selector.id.name, []).extend(keys)
        self.generic_visit(node)

    def visit_FunctionReference(self, node: Any) -> None:
        for each in node.arguments.positional:
            if isinstance(each, ast.VariableReference):
                self.functions.setdefault(each.id.name, set()).add(node.id.name)
        self.generic_visit(node)


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
    """Phrases of a single language are exempt. A rule's message has parts or is named as a parameter."""
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
        for name in {each.message for each in named()} | {key for key in source if source[key].attributes}
    }
    assert {name: more for name, more in asked.items() if more} == {}


def _sentences(block: str) -> Iterator[tuple[str, str]]:
    """Yield the sentences of a recording in ``words.zh.txt``, each with its kind: title, cause, advice."""
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


class _Words(Visitor):
    """Collects what a message says besides its parameters."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def visit_TextElement(self, node: Any) -> None:
        self.found.append(" ".join(node.value.split()))


def test_chinese_messages_have_no_english_words_but_terms() -> None:
    left = set()
    for message in messages("zh").values():
        visitor = _Words()
        visitor.visit(message)
        left |= {words for said in visitor.found for words in english_in("cause", said)}
    assert {words for words in left if not words.startswith("loaderwatch ")} - TERMS_OF_MESSAGES == set()


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


@pytest.mark.parametrize(
    ("environ", "asked"),
    [
        ({}, False),
        ({"LANG": "zh_CN.UTF-8"}, True),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, False),
        ({"LANG": "en_US.UTF-8", "LOADERWATCH_LANGUAGE": "zh"}, True),
        ({"LANG": "zh_CN.UTF-8", "LOADERWATCH_LANGUAGE": "en"}, False),
    ],
)
def test_who_asks_for_chinese(environ: dict[str, str], asked: bool) -> None:
    assert texts.asks_for_chinese(environ) is asked


def test_a_message_is_parsed_when_it_is_first_said() -> None:
    catalogue = texts.Catalogue(
        "en", ["# a\none = { two } { $x }\n    .part = P\n## b\n\ntwo = 2\nthree = 3\n"]
    )
    assert catalogue.say("one", {"x": "three"}) == "2 three"
    assert catalogue.say("one", {}, "part") == "P"
    assert "three" in catalogue
    assert "part" not in catalogue
    assert catalogue.say("three", {}) == "3"


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


def always_needed(pattern: Any, known: dict[str, Any]) -> set[str]:
    """The parameters that a message needs whatever they are."""
    visitor = _Always()
    visitor.visit(pattern)
    needed: set[str] = set()
    for name in visitor.found:
        reference = name.removeprefix("message ")
        needed |= {name} if reference == name else always_needed(known[reference].value, known)
    return needed


def test_code_and_catalogues_name_the_same_messages() -> None:
    by_language = {language: messages(language) for language in texts.LANGUAGES}
    asked = named()
    assert len(asked) > 200
    lost = {
        (each.message, each.where)
        for each in asked
        for known in by_language.values()
        if each.message not in known
    }
    assert lost == set(), "the code names them, and a catalogue does not have them"
    source = by_language[texts.SOURCE]
    referred: set[str] = set()
    for name, message in source.items():
        visitor = _Names()
        visitor.visit(message)
        referred |= visitor.found - {name}
    unused = source.keys() - words() - referred
    help_of_commands = {
        name for name in unused if name.startswith("command")
    }  # tests/unit/cli/test_parser.py
    assert {name for name in unused - help_of_commands if not made_up().fullmatch(name)} == set()


@pytest.mark.parametrize("language", texts.LANGUAGES)
def test_a_message_gets_the_parameters_that_it_needs(language: str) -> None:
    known, source = messages(language), messages(texts.SOURCE)
    missing, useless = {}, {}
    for each in named():
        message = known[each.message]
        parts = {part.id.name: part for part in message.attributes}
        if each.all_given:
            needed = always_needed(parts[each.part] if each.part else message.value, known)
            missing[each.where] = needed - each.given
        used = names_in(language, each.message, known) | names_in(texts.SOURCE, each.message, source)
        useless[each.where] = each.given - {name.removeprefix("$") for name in used}
    assert {where: names for where, names in missing.items() if names} == {}
    assert {where: names for where, names in useless.items() if names} == {}


def uses_of(name: str, known: dict[str, Any]) -> _Choices:
    """How a message, with those that it refers to, uses its parameters."""
    choices, seen, left = _Choices(), set(), [name]
    while left:
        each = left.pop()
        if each in seen or each not in known:
            continue
        seen.add(each)
        choices.visit(known[each])
        visitor = _Names()
        visitor.visit(known[each])
        left += [found for found in visitor.found if not found.startswith("$")]
    return choices


TEXTS: Final = ("x", "", "<b>&{ $x }</b>\u202e", "train.py:3 in <module>", "很长" * 200)
NUMBERS: Final = (1, 0, 2, 0.004, 1e15)


def values_of(name: str, choices: _Choices) -> list[Any]:
    """Values that a message must accept: each variant, numbers of all sizes, any text, unknown if checked."""
    functions, variants = choices.functions.get(name, set()), choices.variants.get(name, [])
    if functions & NUMERIC:
        values: list[Any] = list(NUMBERS)
    elif set(variants) & {"one", "other"} and set(variants) <= {"one", "other", "0", "1", "2"}:
        values = [1, 0, 2, 10**15]
    elif "PER_BATCH" in functions:
        values = list(TEXTS)
    elif "LISTING" in functions:
        values = ["", "1", "1 2 3", " ".join(map(str, range(50)))]
    else:
        values = [*variants, *TEXTS] if variants else [*TEXTS, 0, 10**15]
    return [*values, None] if "KNOWN" in functions else values


NUMERIC: Final = frozenset(FUNCTIONS) - {"KNOWN", "LISTING", "PER_BATCH"}


@pytest.mark.parametrize("language", texts.LANGUAGES)
def test_every_message_bears_extreme_values(language: str) -> None:
    known = messages(language)
    for name, message in known.items():
        names = {each.removeprefix("$") for each in names_in(language, name, known)}
        choices = uses_of(name, known)
        values = {each: values_of(each, choices) for each in names}
        for turn in range(max(map(len, values.values()), default=1)):
            params = {each: of[turn % len(of)] for each, of in values.items()}
            for part in [*(each.id.name for each in message.attributes), *([None] if message.value else [])]:
                said = texts.catalogue(language).say(name, params, part)
                assert "{???}" not in said
                assert "$" not in said.replace("{ $x }", ""), (name, part, said)
