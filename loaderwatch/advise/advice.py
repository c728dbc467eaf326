"""The order and words of advice: worst first, and once for several ranks."""

from __future__ import annotations

from typing import Final

import msgspec

from loaderwatch.core.answers import Advice, Severity, Text
from loaderwatch.texts import say

SEVERITIES: Final[tuple[Severity, ...]] = ("info", "warning", "critical")
"""Severities in rising order. "info" is worth knowing, "warning" costs time, "critical" fails or hangs."""


def by_severity(found: list[Advice]) -> list[Advice]:
    """Return the advice, worst first; the same advice of several ranks for loaders of one name, once."""
    merged: dict[tuple[str, str | None], Advice] = {}
    for advice in sorted(found, key=lambda a: -SEVERITIES.index(a.severity)):
        key = (advice.check, advice.loader)
        known = merged.get(key)
        if known is None:
            merged[key] = advice
        else:
            ranks = sorted({*known.ranks, *advice.ranks})
            merged[key] = msgspec.structs.replace(known, ranks=ranks)
    return list(merged.values())


def worded(advice: Advice) -> Advice:
    """Return the advice with English sentences, for readers without a catalogue."""
    what, why, change = (say(Text(advice.rule, advice.params, part)) for part in ("what", "why", "change"))
    return msgspec.structs.replace(advice, what=what, why=why, change=change)
