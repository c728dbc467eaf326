"""Answers in the language of their reader: findings, verdicts and advice are said again from their messages."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from loaderwatch.core.answers import Advice, Finding, Text, Verdict
from loaderwatch.detect.finding import text_of
from loaderwatch.texts import SOURCE, is_known, say

T = TypeVar("T")

PARTS: Final[dict[type, tuple[str, ...]]] = {
    Finding: ("title", "cause", "advice"),
    Verdict: ("title", "advice"),
    Advice: ("what", "why", "change"),
}
"""The sentences of each kind of answer that has a message: the fields, which are the message's parts as well."""


def in_language(answer: T, language: str) -> T:
    """Return an answer with its sentences in a language ("en" or "zh"); answers are made in English.

    A field ``title`` is said from ``title_text`` where the answer has that, a list ``notes`` from ``note_texts``. What comes from a server
    of another version, whose messages are not known here, stays as it is.
    """
    said: T = answer if language == SOURCE else _said(answer, language)
    return said


def _said(value: Any, language: str) -> Any:
    if isinstance(value, msgspec.Struct):
        return _struct_said(value, language)
    if isinstance(value, dict):
        return {name: _said(each, language) for name, each in value.items()}
    if (
        isinstance(value, list | tuple)
        and value
        and isinstance(value[0], msgspec.Struct | dict | list | tuple)
    ):
        return [_said(each, language) for each in value]
    return value


def _struct_said(value: msgspec.Struct, language: str) -> msgspec.Struct:
    if isinstance(value, Text):
        return value  # data, from which sentences beside it are said
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    changed = {name: _said(each, language) for name, each in fields.items()}
    if isinstance(value, Finding | Verdict | Advice) and is_known(value.rule):
        for part in PARTS[type(value)]:
            changed[part] = say(_part(value, part), language)
    for name, each in fields.items():
        if name.endswith("_text") and each is not None:
            changed[name.removesuffix("_text")] = say(each, language)
        elif name.endswith("_texts") and each:
            changed[f"{name.removesuffix('_texts')}s"] = [say(text, language) for text in each]
    return msgspec.structs.replace(value, **changed) if changed != fields else value


def _part(answer: Finding | Verdict | Advice, part: str) -> Text:
    return text_of(answer, part) if isinstance(answer, Finding) else Text(answer.rule, answer.params, part)
