"""Advice in its order: the worst first, and what several ranks have in common once."""

from __future__ import annotations

from typing import Final

import msgspec

from loaderwatch.core.answers import Advice, Severity

SEVERITIES: Final[tuple[Severity, ...]] = ("info", "warning", "critical")
"""In order. "critical" fails or hangs; "warning" costs time; "info" is worth knowing."""


def by_severity(found: list[Advice]) -> list[Advice]:
    """The worst first; what several ranks' loaders of one name have in common, once."""
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
