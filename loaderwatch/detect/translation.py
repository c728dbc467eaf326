"""Answers in the reader's language: findings, verdicts and advice, rendered again from their messages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, TypeVar, get_args, get_type_hints

import msgspec

from loaderwatch.core.answers import Advice, Finding, Text, Verdict
from loaderwatch.detect.finding import text_of
from loaderwatch.texts import SOURCE, say

T = TypeVar("T")

# The sentences of each kind of answer that has a message. A field has the same name as the message's part.
PARTS: Final[dict[type, tuple[str, ...]]] = {
    Finding: ("title", "cause", "advice"),
    Verdict: ("title", "advice"),
    Advice: ("what", "why", "change"),
}


def in_language(answer: T, language: str) -> T:
    """Return an answer with its sentences in a language ("en" or "zh"); answers are made in English.

    ``title`` is rendered from ``title_text`` if the answer has it, the list ``notes`` from ``note_texts``,
    and the list ``slowed_by`` from ``slowed_by_texts``. Unknown messages of another version stay.
    """
    translated: T = answer if language == SOURCE else _said(answer, language)
    return translated


def _said(value: Any, language: str) -> Any:
    if isinstance(value, msgspec.Struct):
        return _struct_said(value, language) if _speaks(type(value)) else value
    if isinstance(value, dict):
        return {name: _said(item, language) for name, item in value.items()}
    if (
        isinstance(value, list | tuple)
        and value
        and isinstance(value[0], msgspec.Struct | dict | list | tuple)
    ):
        if isinstance(value[0], msgspec.Struct) and not _speaks(type(value[0])):
            return value
        return [_said(item, language) for item in value]
    return value


@lru_cache
def _speaks(kind: type) -> bool:
    """Whether answers of a kind have sentences, or contain answers that have sentences."""
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
    changed = {name: _said(content, language) for name, content in fields.items()}
    if isinstance(value, Finding | Verdict | Advice):
        for part in PARTS[type(value)]:
            changed[part] = say(_part(value, part), language, fields[part])
    for name, content in fields.items():
        if name.endswith("_text") and content is not None:
            field = name.removesuffix("_text")
            changed[field] = say(content, language, fields[field])
        elif name.endswith("_texts") and content:
            base = name.removesuffix("_texts")
            field = base if base in fields else f"{base}s"
            changed[field] = [
                say(text, language, kept) for text, kept in zip(content, fields[field], strict=False)
            ]
    return msgspec.structs.replace(value, **changed)


def _part(answer: Finding | Verdict | Advice, part: str) -> Text:
    return text_of(answer, part) if isinstance(answer, Finding) else Text(answer.rule, answer.params, part)
