"""Incidents: findings of successive windows, merged over time. What alerts are made of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from loaderwatch.detect.finding import Finding

SEVERITIES: Final = {"info": 0, "warning": 1, "critical": 2}
MOST_INDICES: Final = 64


@dataclass(frozen=True, slots=True)
class Hysteresis:
    """How long a finding must hold before it is an incident, and be gone before it is over."""

    windows: int  # consecutive updates with the finding
    gap_s: float  # time without it


HYSTERESIS: Final[dict[str, Hysteresis]] = {
    "input-bound": Hysteresis(windows=3, gap_s=5.0),
    "epoch-boundary": Hysteresis(windows=1, gap_s=10.0),  # judged over whole epochs, so already steady
    "hung": Hysteresis(windows=1, gap_s=2.0),  # the age limit is its patience
    "crashed": Hysteresis(windows=1, gap_s=2.0),  # it will not come back
}
DEFAULT_HYSTERESIS: Final = Hysteresis(windows=3, gap_s=5.0)


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """One cause over its life. ``finding`` is the merged state; ``closed_ns`` None while it goes on."""

    id: str
    key: str
    finding: Finding
    opened_ns: int
    updated_ns: int
    closed_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What one update did. An incident is in at most one of the lists."""

    opened: list[Incident]
    updated: list[Incident]
    closed: list[Incident]


@dataclass(slots=True)
class _Waiting:
    windows: int
    finding: Finding


class Tracker:
    """Merges the findings of one run. Not thread-safe; hand in windows in order of time."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._waiting: dict[str, _Waiting] = {}
        self._open: dict[str, Incident] = {}
        self._seen_ns: dict[str, int | None] = {}  # None: restored, not judged yet

    @property
    def incidents(self) -> list[Incident]:
        """The open incidents, oldest first."""
        return sorted(self._open.values(), key=lambda incident: incident.opened_ns)

    def restore(self, incidents: Iterable[Incident]) -> None:
        """Take up open incidents that an earlier process left; closed ones are ignored."""
        for incident in incidents:
            if incident.closed_ns is None:
                self._open[incident.key] = incident
                self._seen_ns[incident.key] = None

    def update(self, findings: Sequence[Finding], now_ns: int) -> Changes:
        """Take in the findings of the window that ends at ``now_ns`` (UTC)."""
        changes = Changes([], [], [])
        by_key = _strongest(findings)
        for key, finding in by_key.items():
            if key in self._open:
                incident = self._merge(self._open[key], finding, now_ns)
                self._open[key] = incident
                self._seen_ns[key] = now_ns
                changes.updated.append(incident)
            else:
                opened = self._hold(key, finding, now_ns)
                if opened is not None:
                    changes.opened.append(opened)
        for key in [key for key in self._waiting if key not in by_key]:
            del self._waiting[key]
        for key in [key for key in self._open if key not in by_key]:
            closed = self._release(key, now_ns)
            if closed is not None:
                changes.closed.append(closed)
        return changes

    def close_all(self, now_ns: int) -> Changes:
        """The run is over: everything that is open closes now."""
        closed = [self._close(key, now_ns, now_ns) for key in list(self._open)]
        self._waiting.clear()
        return Changes([], [], closed)

    def _hold(self, key: str, finding: Finding, now_ns: int) -> Incident | None:
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = _Waiting(0, finding)
        waiting.windows += 1
        began_ns = min(waiting.finding.began_ns, finding.began_ns)
        waiting.finding = msgspec.structs.replace(finding, began_ns=began_ns)
        if waiting.windows < _hysteresis(finding).windows:
            return None
        del self._waiting[key]
        incident = Incident(
            id=hashlib.sha256(f"{self.run_id}|{key}|{now_ns}".encode()).hexdigest()[:12],
            key=key,
            finding=waiting.finding,
            opened_ns=now_ns,
            updated_ns=now_ns,
        )
        self._open[key] = incident
        self._seen_ns[key] = now_ns
        return incident

    def _release(self, key: str, now_ns: int) -> Incident | None:
        seen_ns = self._seen_ns[key]
        if seen_ns is None:
            self._seen_ns[key] = now_ns
            return None
        if now_ns - seen_ns < _hysteresis(self._open[key].finding).gap_s * 1e9:
            return None
        return self._close(key, now_ns, seen_ns)

    def _close(self, key: str, now_ns: int, ended_ns: int) -> Incident:
        incident = self._open.pop(key)
        self._seen_ns.pop(key, None)
        finding = msgspec.structs.replace(incident.finding, ended_ns=incident.finding.ended_ns or ended_ns)
        return msgspec.structs.replace(incident, finding=finding, updated_ns=now_ns, closed_ns=now_ns)

    def _merge(self, incident: Incident, new: Finding, now_ns: int) -> Incident:
        old = incident.finding
        graver = SEVERITIES[new.severity] > SEVERITIES[old.severity]
        keep_old = old.scenario != new.scenario and new.confidence <= old.confidence and not graver
        base = old if keep_old else new
        indices = list(dict.fromkeys([*old.sample_indices, *new.sample_indices]))[-MOST_INDICES:]
        finding = msgspec.structs.replace(
            base,
            severity=max(old.severity, new.severity, key=SEVERITIES.__getitem__),
            began_ns=min(old.began_ns, new.began_ns),
            ended_ns=new.ended_ns,
            sample_indices=indices,
            lost_s=_lost(old, new, incident.updated_ns, now_ns),
            stacks=new.stacks or old.stacks,
        )
        return msgspec.structs.replace(incident, finding=finding, updated_ns=now_ns)


def _hysteresis(finding: Finding) -> Hysteresis:
    return HYSTERESIS.get(finding.code, DEFAULT_HYSTERESIS)


def _strongest(findings: Sequence[Finding]) -> dict[str, Finding]:
    by_key: dict[str, Finding] = {}
    for finding in findings:
        known = by_key.get(finding.key)
        if known is None or finding.confidence > known.confidence:
            by_key[finding.key] = finding
    return by_key


def _lost(old: Finding, new: Finding, updated_ns: int, now_ns: int) -> float | None:
    """Time lost since the earliest begin: never less than before.

    A long incident outgrows the window; then the new finding says only what was lost within the window, and its rate
    carries the sum on.
    """
    if old.lost_s is None or new.lost_s is None:
        return old.lost_s if new.lost_s is None else new.lost_s
    if new.began_ns <= old.began_ns or now_ns <= new.began_ns:
        return max(old.lost_s, new.lost_s)
    fresh = min(1.0, max(0, now_ns - updated_ns) / (now_ns - new.began_ns))
    return max(old.lost_s + new.lost_s * fresh, new.lost_s)
