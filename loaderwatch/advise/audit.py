"""The audit of a configuration: every check, over the facts of all ranks. It needs no stall to happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from loaderwatch.advise import batches, epoch_start, options, prefetch, sharding, threads, workers
from loaderwatch.advise.facts import Facts
from loaderwatch.core.answers import Advice, Finding, Severity, Text
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


CHECKS: Final[tuple[Callable[[Facts], list[Advice]], ...]] = (
    options.refused,
    workers.check,
    threads.check,
    epoch_start.check,
    prefetch.check,
    batches.check,
    options.check,
    sharding.check,
    options.flight_recorder,
)

SAYS_HOW_MANY: Final = frozenset({"S01", "S02", "S03", "S04", "S07", "S08", "S43", "S49", "S55"})
"""Scenarios whose advice says how many workers to use, or that more are no cure; S43, S55 include such."""


def audit(facts: Facts) -> list[Advice]:
    """Return all advice on a configuration, worst first; empty if there is none."""
    made_at = {loader.info.name: loader.made_at for loader in facts.loaders}
    advices = [advice for check in CHECKS for advice in check(facts)]
    placed = [
        msgspec.structs.replace(advice, where=advice.where or made_at.get(advice.loader or ""))
        for advice in advices
    ]
    return [worded(advice) for advice in by_severity(placed)]


def not_told(advice: list[Advice], findings: list[Finding]) -> list[Advice]:
    """Leave out advice on the number of workers if an open finding of the same rank gives one.

    The finding's number is measured, the audit's is computed; two numbers on a page would contradict.
    """
    told = [
        finding.rank
        for finding in findings
        if finding.state != "resolved" and finding.scenario in SAYS_HOW_MANY
    ]
    return [
        item
        for item in advice
        if not (
            item.check.startswith("workers-") and any(rank is None or rank in item.ranks for rank in told)
        )
    ]
