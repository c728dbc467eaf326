"""What people read, in their language: messages by their ids, from one catalogue for each language.

A finding, an advice or a verdict is an id with parameters. Its sentences stand in ``texts/<language>/*.ftl``, in the syntax of
Project Fluent (https://projectfluent.org). A catalogue may choose between variants and plurals, and it formats numbers with the
functions of ``formats``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from fluent.runtime import FluentBundle, FluentResource, resolver
from fluent.runtime.types import FluentType, fluent_number

from loaderwatch.core.answers import Text
from loaderwatch.texts.formats import FUNCTIONS, Unknown, listing

LANGUAGES: Final = ("en", "zh")
SOURCE: Final = "en"
"""The language that every message has; another language's missing message is said in this one."""

LONGEST: Final = 100_000
"""Characters of a parameter, which may be several sentences. Fluent refuses more than 2,500, against catalogues of strangers; ours are our own."""
resolver.MAX_PART_LENGTH = LONGEST

MOST_REPORTED: Final = 1_000
_log: Final = logging.getLogger(__name__)
_reported: Final[set[str]] = set()
_NOTHING: Final = {"en": "unknown", "zh": "未知"}
_MISFITS: Final = (LookupError, ArithmeticError, RecursionError, TypeError, ValueError)
"""What Fluent and the formats raise where a parameter, or a message in it, is none that they know: of another version, or made up."""
_BROKEN_LINE: Final = re.compile(r"\s*\n\s*")
_KEPT_BREAK: Final = "\ue000"
"""Stands for a line break in a parameter, while the line breaks of the catalogue's file are removed."""
_BETWEEN_HAN: Final = re.compile(r"(?<=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])\s*\n\s*")


class Catalogue:
    """The messages of one language."""

    def __init__(self, language: str, sources: Sequence[str]) -> None:
        self.language = language
        self._bundle = FluentBundle(
            [language],
            functions={name: each(language) for name, each in FUNCTIONS.items()},
            use_isolating=False,
        )
        for source in sources:
            self._bundle.add_resource(FluentResource(source))

    def __contains__(self, message: str) -> bool:
        return self._bundle.has_message(message)

    def say(self, message: str, params: Mapping[str, Any], part: str | None = None) -> str:
        """Return a message, or one part of it, such as its title; "" where it has no such part.

        Raises:
            TextError: there is no message of this id, or a parameter is missing or of another kind than the message needs.
        """
        try:
            known = self._bundle.get_message(message)
            pattern = known.value if part is None else known.attributes.get(part)
            if pattern is None:
                return ""
            values = {name: self._value(value) for name, value in params.items()}
            said, errors = self._bundle.format_pattern(pattern, values)
        except _MISFITS as misfit:
            raise TextError(f"message {message}.{part} in {self.language}: {misfit!r}") from misfit
        if errors:
            raise TextError(f"message {message}.{part} in {self.language}: {errors[0]}")
        return self._one_line(str(said)).replace(_KEPT_BREAK, "\n")

    def _value(self, value: Any) -> Any:
        """Return a parameter as Fluent takes it."""
        if isinstance(value, Text):
            value = self.say(value.id, value.params, value.part)
        if hasattr(value, "item"):  # a number of NumPy's
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
        return listing([str(self._value(each)) for each in value], self.language)

    def _one_line(self, said: str) -> str:
        """Return a text without the line breaks of the file that it stands in."""
        said = _BETWEEN_HAN.sub("", said) if self.language == "zh" else said
        return _BROKEN_LINE.sub(" ", said).strip()


class TextError(Exception):
    """A message and its parameters do not fit together, which is a fault of ours."""


@lru_cache
def catalogue(language: str) -> Catalogue:
    """Return the catalogue of a language, "en" or "zh"."""
    folder = Path(__file__).resolve().parent / language
    return Catalogue(language, [file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.ftl"))])


def is_sayable(text: Text) -> bool:
    """Whether this version has the message and all that is in it, and the parameters fit."""
    try:
        return bool(catalogue(SOURCE).say(text.id, text.params, text.part))
    except TextError:
        return False


def say(text: Text, language: str = SOURCE, kept: str | None = None) -> str:
    """Return a text in a language, else in English, else as it was ``kept``.

    A message of another version may not be known here, and a parameter may not fit: that is logged once for each message. Where
    nothing was kept, the id is shown in place of the sentence.
    """
    for each in dict.fromkeys((language, SOURCE)):
        if text.id not in catalogue(each):
            continue
        try:
            return catalogue(each).say(text.id, text.params, text.part) or kept or ""
        except TextError as fault:
            _report(f"{text.id}.{text.part}.{each}", fault)
    return text.id if kept is None else kept


def _report(which: str, fault: TextError) -> None:
    if which not in _reported and len(_reported) < MOST_REPORTED:
        _reported.add(which)
        _log.error("%s", fault)
