"""What the audit says: one thing about a configuration, why it matters, and the change."""

from __future__ import annotations

from typing import Final

import msgspec

SEVERITIES: Final = ("info", "warning", "critical")
"""In order. "critical" fails or hangs; "warning" costs time; "info" is worth knowing."""


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of advice. ``check`` is its heading in docs/doctor.md."""

    check: str
    severity: str  # of SEVERITIES
    what: str  # what is configured, with its numbers
    why: str
    change: str
    loader: str | None = None  # the loader's name
    where: str | None = None  # file and line of the loader's construction, where that is known
    ranks: list[int] = []


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
