"""Incidents: the findings of successive windows, merged over time. Alerts are made from them.

An incident is one cause, not one key. A finding that explains an open incident takes it over instead of
opening another one: a slow sample turns out to hang, or a full /dev/shm kills the run. A finding that an open
incident explains is added to that incident.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import HUNG
from loaderwatch.detect.finding import SEVERITIES, Finding
from loaderwatch.detect.incidents.explained_findings import absorb, explains, graver, joined
from loaderwatch.detect.lost_time_lines import with_newer_lines

MOST_INCIDENT_SAMPLES: Final = threshold(
    64, "samples", "chosen: limits the sample indices that an incident keeps"
)


@dataclass(frozen=True, slots=True)
class Hysteresis:
    """How long a finding must last to open an incident, and how long it must be absent to close it."""

    windows: int  # consecutive updates with the finding before its incident opens
    gap_s: float  # seconds without the finding before its incident closes


WINDOWS_TO_OPEN: Final = threshold(3, "windows", "chosen: a wait in one or two windows may pass by itself")
OPENS_AT_ONCE: Final = threshold(
    1, "windows", "chosen: these findings waited for whole epochs or an age already; a death is one event"
)
GAP_S: Final = threshold(5.0, "s", "chosen: an incident stays open through shorter gaps")
BOUNDARY_GAP_S: Final = threshold(10.0, "s", "chosen: epoch boundaries come less often than waits")
STANDSTILL_GAP_S: Final = threshold(
    2.0, "s", "chosen: a rank that moves again is no longer hung; a dead one stays dead"
)
EVALUATION_GAP_S: Final = threshold(300.0, "s", "chosen: the next evaluation may be so far away")
FORECAST_GAP_S: Final = threshold(15.0, "s", "chosen: a forecast wavers, and may come true in the meantime")

HYSTERESIS: Final[dict[str, Hysteresis]] = {
    "input-bound": Hysteresis(WINDOWS_TO_OPEN, GAP_S),
    "epoch-boundary": Hysteresis(OPENS_AT_ONCE, BOUNDARY_GAP_S),
    "hung": Hysteresis(OPENS_AT_ONCE, STANDSTILL_GAP_S),
    "slow-evaluation": Hysteresis(WINDOWS_TO_OPEN, EVALUATION_GAP_S),
    "crashed": Hysteresis(OPENS_AT_ONCE, STANDSTILL_GAP_S),
    "running-out": Hysteresis(WINDOWS_TO_OPEN, FORECAST_GAP_S),
    "headroom": Hysteresis(WINDOWS_TO_OPEN, FORECAST_GAP_S),
}
DEFAULT_HYSTERESIS: Final = Hysteresis(WINDOWS_TO_OPEN, GAP_S)
SURE_FOR_S: Final = threshold(
    15.0, "s", "chosen: so long a surer rule of one scenario may be absent before another replaces it"
)


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """One cause over its life. ``finding`` is the merged state, ``closed_ns`` None while it is open."""

    id: str
    key: str  # the key of its finding; changes when a finding with another key takes the incident over
    finding: Finding
    opened_ns: int
    updated_ns: int
    closed_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """The incidents that one update opened, updated and closed. An incident is in at most one list.

    ``absent`` holds the ids of open incidents without a finding in this window. They close if that lasts.
    """

    opened: list[Incident]
    updated: list[Incident]
    closed: list[Incident]
    absent: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Waiting:
    windows: int
    finding: Finding


class Tracker:
    """The incidents of one run, merged from its findings. Not thread-safe; windows come in order of time."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._waiting: dict[str, _Waiting] = {}
        self._open: dict[str, Incident] = {}
        self._seen_ns: dict[str, int | None] = {}  # when last seen; None: restored, not judged yet
        self._told_ns: dict[str, int] = {}  # when what the incident reports was last found
        self._dead: set[tuple[str, int | None]] = set()  # crashes that were reported, by key and pid

    @property
    def incidents(self) -> list[Incident]:
        """Return the open incidents, oldest first."""
        return sorted(self._open.values(), key=lambda incident: incident.opened_ns)

    def restore(self, incidents: Iterable[Incident]) -> None:
        """Take over the open incidents of an earlier process, and remember the crashes among the others."""
        for incident in incidents:
            self._note_crash(incident.finding)
            if incident.closed_ns is None:
                self._open[incident.key] = incident
                self._seen_ns[incident.key] = None
                self._told_ns[incident.key] = incident.updated_ns

    def update(self, findings: Sequence[Finding], now_ns: int) -> Changes:
        """Add the findings of the window that ends at ``now_ns`` (UTC); return what changed."""
        by_key = _strongest(findings)
        touched: dict[str, Incident] = {}  # by the incident's id
        for finding in by_key.values():
            incident = self._place(finding, now_ns)
            if incident is not None:
                touched[incident.id] = incident
        for key in [key for key in self._waiting if key not in by_key]:
            del self._waiting[key]
        closed = [
            incident
            for key in [key for key in self._open if key not in by_key]
            if (incident := self._release(key, now_ns)) is not None
        ]
        going_on = [known for known in touched.values() if all(known.id != gone.id for gone in closed)]
        return Changes(
            opened=[incident for incident in going_on if incident.opened_ns == now_ns],
            updated=[incident for incident in going_on if incident.opened_ns != now_ns],
            closed=closed,
            absent=frozenset(incident.id for key, incident in self._open.items() if key not in by_key),
        )

    def close_all(self, now_ns: int) -> Changes:
        """Close all open incidents at ``now_ns`` (UTC), because the run is over; return what changed."""
        closed = [self._close(key, now_ns, now_ns) for key in list(self._open)]
        self._waiting.clear()
        return Changes([], [], closed)

    def _place(self, finding: Finding, now_ns: int) -> Incident | None:
        """Return the updated incident that a finding belongs to.

        None if the finding has not lasted long enough yet, or is a crash that was reported already.
        """
        key = finding.key
        if finding.is_past:
            known = self._open.get(key)
            return (
                None
                if known is None
                else self._put(msgspec.structs.replace(known, updated_ns=now_ns), now_ns)
            )
        if key in self._open:
            return self._put(self._merge(self._open[key], finding, now_ns), now_ns)
        above = self._explaining(finding)
        if above is not None:
            self._waiting.pop(key, None)
            self._open[above.key] = msgspec.structs.replace(above, finding=absorb(above.finding, [finding]))
            return self._open[above.key]
        if (key, finding.pid) in self._dead:  # a process dies only once
            return None
        held = self._hold(key, finding)
        if held is None:
            return None
        below = self._explained(held)
        return self._put(
            self._new(held, now_ns) if below is None else self._take_over(below, held, now_ns), now_ns
        )

    def _hold(self, key: str, finding: Finding) -> Finding | None:
        """Return the finding if it has lasted long enough, else None."""
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = _Waiting(0, finding)
        waiting.windows += 1
        began_ns = min(waiting.finding.began_ns, finding.began_ns)
        waiting.finding = msgspec.structs.replace(finding, began_ns=began_ns)
        if waiting.windows < _hysteresis(finding).windows:
            return None
        return self._waiting.pop(key).finding

    def _new(self, finding: Finding, now_ns: int) -> Incident:
        return Incident(
            id=hashlib.sha256(f"{self.run_id}|{finding.key}|{now_ns}".encode()).hexdigest()[:12],
            key=finding.key,
            finding=finding,
            opened_ns=now_ns,
            updated_ns=now_ns,
        )

    def _put(self, incident: Incident, now_ns: int) -> Incident:
        self._open[incident.key] = incident
        self._seen_ns[incident.key] = now_ns
        self._told_ns.setdefault(incident.key, now_ns)
        self._note_crash(incident.finding)
        return incident

    def _note_crash(self, finding: Finding) -> None:
        if finding.code == "crashed":
            self._dead.add((finding.key, finding.pid))

    def _explaining(self, finding: Finding) -> Incident | None:
        """Return the open incident that explains this finding; None if there is none."""
        return next((incident for incident in self.incidents if explains(incident.finding, finding)), None)

    def _explained(self, finding: Finding) -> Incident | None:
        """Return the gravest, then oldest, open incident that this finding explains; None without one."""
        explained = [incident for incident in self.incidents if explains(finding, incident.finding)]
        return max(explained, key=lambda incident: SEVERITIES[incident.finding.severity], default=None)

    def _take_over(self, incident: Incident, finding: Finding, now_ns: int) -> Incident:
        """Return the incident with this finding as its cause and its earlier state as an explained effect."""
        old = incident.finding
        warned_s = (now_ns - incident.opened_ns) / 1e9 if old.severity != "info" else None
        del self._open[incident.key], self._seen_ns[incident.key]
        self._told_ns.pop(incident.key, None)
        finding = msgspec.structs.replace(
            absorb(finding, [old], warned_s),
            worker=old.worker if finding.worker is None else finding.worker,
            sample_indices=finding.sample_indices or old.sample_indices,
            stacks=finding.stacks or old.stacks,
        )
        return msgspec.structs.replace(incident, key=finding.key, finding=finding, updated_ns=now_ns)

    def _release(self, key: str, now_ns: int) -> Incident | None:
        seen_ns = self._seen_ns[key]
        if seen_ns is None:
            self._seen_ns[key] = now_ns
            return None
        if now_ns - seen_ns < _hysteresis(self._open[key].finding).gap_s * 1e9:
            return None
        return self._close(key, now_ns, self._open[key].updated_ns)

    def _close(self, key: str, now_ns: int, ended_ns: int) -> Incident:
        incident = self._open.pop(key)
        self._seen_ns.pop(key, None)
        self._told_ns.pop(key, None)
        finding = _ended(incident.finding, incident.updated_ns, ended_ns)
        return msgspec.structs.replace(incident, finding=finding, updated_ns=now_ns, closed_ns=now_ns)

    def _wavers(self, incident: Incident, new: Finding, now_ns: int) -> bool:
        """Whether a less sure rule of the same scenario is found for a moment only.

        The measurements of the surer rule waver. Until it is gone for long, cause and severity stay. A
        standstill is no measurement: it alarms as soon as it is grave.
        """
        old = incident.finding
        lately = now_ns - self._told_ns[incident.key] < SURE_FOR_S * 1e9
        is_less_sure = old.rule != new.rule and new.confidence < old.confidence and new.code != HUNG
        return old.scenario == new.scenario and is_less_sure and lately

    def _merge(self, incident: Incident, new: Finding, now_ns: int) -> Incident:
        old = incident.finding
        wavers = self._wavers(incident, new, now_ns)
        is_graver = SEVERITIES[new.severity] > SEVERITIES[old.severity]
        is_surer = old.scenario != new.scenario and new.confidence <= old.confidence
        keep_old = wavers or (is_surer and not is_graver)
        base = with_newer_lines(old, new) if keep_old else new
        if not keep_old:
            self._told_ns[incident.key] = now_ns
        indices = base.sample_indices
        if old.scenario == new.scenario:
            indices = list(dict.fromkeys([*old.sample_indices, *new.sample_indices]))[-MOST_INCIDENT_SAMPLES:]
        finding = msgspec.structs.replace(
            base,
            severity=old.severity if wavers else graver(old.severity, new.severity),
            began_ns=min(old.began_ns, new.began_ns),
            ended_ns=new.ended_ns,
            sample_indices=indices,
            lost_s=_lost(old, new, incident.updated_ns, now_ns),
            stacks=new.stacks or old.stacks,
            folded=joined(old.folded, new.folded, incident.key),
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


def _ended(finding: Finding, updated_ns: int, ended_ns: int) -> Finding:
    """Return the finding with its end. Until then it is taken to lose time at the same rate as before."""
    if finding.ended_ns is not None:
        return finding
    lost_s, lasted_s = finding.lost_s, (updated_ns - finding.began_ns) / 1e9
    if lost_s is not None and lasted_s > 0:
        lost_s += min(1.0, lost_s / lasted_s) * max(0, ended_ns - updated_ns) / 1e9
    return msgspec.structs.replace(finding, ended_ns=ended_ns, lost_s=lost_s)


def _lost(old: Finding, new: Finding, updated_ns: int, now_ns: int) -> float | None:
    """Return the seconds lost since the earliest begin, never less than before; None if not known.

    An incident may last longer than the window. Then the new finding knows only the loss within the window,
    and its rate continues the old sum.
    """
    if old.lost_s is None or new.lost_s is None:
        return old.lost_s if new.lost_s is None else new.lost_s
    if new.began_ns <= old.began_ns or now_ns <= new.began_ns:
        return max(old.lost_s, new.lost_s)
    fresh = min(1.0, max(0, now_ns - updated_ns) / (now_ns - new.began_ns))
    return max(old.lost_s + new.lost_s * fresh, new.lost_s)
