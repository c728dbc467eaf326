"""Texts for people in their language: messages by id, from one catalogue per language.

A finding, an advice or a verdict is an id with parameters. Its sentences are in ``texts/<language>/*.ftl``,
in the syntax of Project Fluent (https://projectfluent.org). A catalogue may choose between variants and
plurals, and it formats numbers with the functions of ``formats``.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from fluent.runtime import FluentBundle, FluentResource, resolver
from fluent.runtime.types import FluentType, fluent_number

from loaderwatch.core.answers import Param, Text
from loaderwatch.core.environment_variables import LANGUAGE, LANGUAGE_TAG
from loaderwatch.texts.formats import FUNCTIONS, Unknown, listing

LANGUAGES: Final = ("en", "zh")
SOURCE: Final = "en"
"""The language that has every message; it replaces a missing message of another language."""

LONGEST: Final = 100_000
"""Maximum characters of a parameter, which may be several sentences.

Fluent's limit of 2,500 protects against foreign catalogues; ours are our own.
"""
resolver.MAX_PART_LENGTH = LONGEST

MOST_REPORTED: Final = 1_000
_log: Final = logging.getLogger(__name__)
_reported: Final[set[str]] = set()
_NOTHING: Final = {"en": "unknown", "zh": "未知"}
_MISFITS: Final = (LookupError, ArithmeticError, RecursionError, TypeError, ValueError)
"""Errors of Fluent and the formats for an unknown message or parameter: of another version, or made up."""
_BROKEN_LINE: Final = re.compile(r"\s*\n\s*")
_KEPT_BREAK: Final = "\ue000"
"""Replaces a line break in a parameter, while the line breaks of the catalogue's file are removed."""
_ENTRY: Final = re.compile(r"^([a-z][a-z0-9-]*) *=", re.MULTILINE)
"""The beginning of a message in a catalogue's file."""
_WORD: Final = re.compile(r"(?<![\w$-])[a-z][a-z0-9-]*")
"""A possible id of a message that another one refers to."""
_BETWEEN_HAN: Final = re.compile(r"(?<=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])\s*\n\s*")


class Catalogue:
    """The messages of one language. Each is parsed at first use: a command uses few, and all take 0.17 s."""

    def __init__(self, language: str, sources: Sequence[str]) -> None:
        self.language = language
        self._bundle = FluentBundle(
            [language],
            functions={name: maker(language) for name, maker in FUNCTIONS.items()},
            use_isolating=False,
        )
        entries = [entry for source in sources for entry in _entries(source)]
        self._ids = frozenset(name for name, _ in entries)
        self._unread = dict(entries)

    def __contains__(self, message: str) -> bool:
        return message in self._ids

    def say(self, message: str, params: Mapping[str, Any], part: str | None = None) -> str:
        """Return a message, or one part of it, such as its title; "" if it has no such part.

        Raises:
            TextError: no message has this id, or a parameter is missing or of a wrong type for the message.
        """
        self._read(message)
        try:
            known = self._bundle.get_message(message)
            pattern = known.value if part is None else known.attributes.get(part)
            if pattern is None:
                return ""
            values = {name: self._value(value) for name, value in params.items()}
            text, errors = self._bundle.format_pattern(pattern, values)
        except _MISFITS as misfit:
            raise TextError(f"message {message}.{part} in {self.language}: {misfit!r}") from misfit
        if errors:
            raise TextError(f"message {message}.{part} in {self.language}: {errors[0]}")
        return self._one_line(str(text)).replace(_KEPT_BREAK, "\n")

    def _read(self, message: str) -> None:
        """Parse a message at its first use, and the messages that it refers to.

        A message counts as read once all of them are in the bundle. So two threads may parse the same
        message, but neither returns half of it.
        """
        wanted, entries = [message], dict[str, str]()
        while wanted:
            name = wanted.pop()
            entry = self._unread.get(name)
            if entry is not None and name not in entries:
                entries[name] = entry
                wanted += _WORD.findall(entry)
        if entries:
            self._bundle.add_resource(FluentResource("\n".join(entries.values())))
            for name in entries:
                self._unread.pop(name, None)

    def _value(self, value: Any) -> Any:
        """Return a parameter in the form that Fluent accepts."""
        if isinstance(value, Text):
            value = self.say(value.id, value.params, value.part)
        if hasattr(value, "item"):  # a NumPy number
            value = value.item()
        if isinstance(value, str):
            return value.replace("\n", _KEPT_BREAK)
        if isinstance(value, FluentType):
            return value
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int | float):
            return fluent_number(value, useGrouping=False)
        if value is None:
            return Unknown(_NOTHING[self.language])
        return listing([str(self._value(item)) for item in value], self.language)

    def _one_line(self, said: str) -> str:
        """Return a text without the line breaks of its file."""
        said = _BETWEEN_HAN.sub("", said) if self.language == "zh" else said
        return _BROKEN_LINE.sub(" ", said).strip()


def _entries(source: str) -> list[tuple[str, str]]:
    """Return the id and the lines of each message in a catalogue's file."""
    begins = list(_ENTRY.finditer(source))
    ends = [match.start() for match in begins[1:]] + [len(source)]
    return [(match[1], source[match.start() : end]) for match, end in zip(begins, ends, strict=True)]


class TextError(Exception):
    """A message and its parameters do not match, which is a fault of ours."""


@lru_cache
def catalogue(language: str) -> Catalogue:
    """Return the catalogue of a language, "en" or "zh"."""
    folder = Path(__file__).resolve().parent / language
    return Catalogue(language, [file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.ftl"))])


def is_sayable(text: Text) -> bool:
    """Whether this version has the message and all messages in it, and the parameters match."""
    try:
        return bool(catalogue(SOURCE).say(text.id, text.params, text.part))
    except TextError:
        return False


def say(text: Text, language: str = SOURCE, kept: str | None = None) -> str:
    """Return a text in a language, else in English, else as it was ``kept``.

    This version may not know a message of another version, or a parameter may not match. That is logged once
    per message. If nothing was kept, the id replaces the sentence.
    """
    for candidate in dict.fromkeys((language, SOURCE)):
        if text.id not in catalogue(candidate):
            continue
        try:
            return catalogue(candidate).say(text.id, text.params, text.part) or kept or ""
        except TextError as fault:
            _report(f"{text.id}.{text.part}.{candidate}", fault)
    return text.id if kept is None else kept


def asks_for_chinese(environ: Mapping[str, str]) -> bool:
    """Whether LOADERWATCH_LANGUAGE ("zh" or "en"), else the locale of messages, asks for Chinese."""
    chosen = LANGUAGE.read(environ)
    if chosen is None:
        names = ("LC_ALL", "LC_MESSAGES", "LANG")
        chosen = LANGUAGE_TAG.parse(next((environ[name] for name in names if environ.get(name)), ""), "LANG")
    return chosen == "zh"


def own_language() -> str:
    """Return the language of this process's reader: "zh" or "en"."""
    return "zh" if asks_for_chinese(os.environ) else "en"


def in_own_language(message: str, /, **params: Param) -> str:
    """Return a message in the language of this process's reader."""
    return say(Text(message, params), own_language())


def _report(which: str, fault: TextError) -> None:
    if which not in _reported and len(_reported) < MOST_REPORTED:
        _reported.add(which)
        _log.error("%s", fault)
