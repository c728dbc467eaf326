"""Answers in the language of their reader: findings, verdicts and advice are said again from their messages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, TypeVar, get_args, get_type_hints

import msgspec

from loaderwatch.core.answers import Advice, Finding, Text, Verdict
from loaderwatch.detect.finding import text_of
from loaderwatch.texts import SOURCE, say

T = TypeVar("T")

PARTS: Final[dict[type, tuple[str, ...]]] = {
    Finding: ("title", "cause", "advice"),
    Verdict: ("title", "advice"),
    Advice: ("what", "why", "change"),
}
"""The sentences of each kind of answer that has a message: the fields, which are the message's parts as well."""


def in_language(answer: T, language: str) -> T:
    """Return an answer with its sentences in a language ("en" or "zh"); answers are made in English.

    A field ``title`` is said from ``title_text`` where the answer has that, a list ``notes`` from ``note_texts``, and a list ``slowed_by``
    from ``slowed_by_texts``. What comes from a server
    of another version, whose messages are not known here, stays as it is.
    """
    said: T = answer if language == SOURCE else _said(answer, language)
    return said


def _said(value: Any, language: str) -> Any:
    if isinstance(value, msgspec.Struct):
        return _struct_said(value, language) if _speaks(type(value)) else value
    if isinstance(value, dict):
        return {name: _said(each, language) for name, each in value.items()}
    if (
        isinstance(value, list | tuple)
        and value
        and isinstance(value[0], msgspec.Struct | dict | list | tuple)
    ):
        if isinstance(value[0], msgspec.Struct) and not _speaks(type(value[0])):
            return value
        return [_said(each, language) for each in value]
    return value


@lru_cache
def _speaks(kind: type) -> bool:
    """Whether answers of a kind have sentences, or hold answers that have."""
    return kind in PARTS or any(
        name.endswith(("_text", "_texts")) or any(map(_speaks, _structs_in(hint)))
        for name, hint in get_type_hints(kind).items()
    )


def _structs_in(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield from () if hint is Text else (hint,)
    for inner in get_args(hint):
        yield from _structs_in(inner)


def _struct_said(value: msgspec.Struct, language: str) -> msgspec.Struct:
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    changed = {name: _said(each, language) for name, each in fields.items()}
    if isinstance(value, Finding | Verdict | Advice):
        for part in PARTS[type(value)]:
            changed[part] = say(_part(value, part), language, fields[part])
    for name, each in fields.items():
        if name.endswith("_text") and each is not None:
            of = name.removesuffix("_text")
            changed[of] = say(each, language, fields[of])
        elif name.endswith("_texts") and each:
            base = name.removesuffix("_texts")
            of = base if base in fields else f"{base}s"
            changed[of] = [say(text, language, kept) for text, kept in zip(each, fields[of], strict=False)]
    return msgspec.structs.replace(value, **changed)


def _part(answer: Finding | Verdict | Advice, part: str) -> Text:
    return text_of(answer, part) if isinstance(answer, Finding) else Text(answer.rule, answer.params, part)
