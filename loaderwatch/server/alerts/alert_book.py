"""The alert book of a run: one alert per cause, which is firing, acknowledged, silenced or resolved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from loaderwatch.core import answers
from loaderwatch.core.answers import AlertState
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.facts import StackDump
from loaderwatch.core.from_records import from_records
from loaderwatch.detect.finding import Finding, text_of, with_texts
from loaderwatch.detect.incidents.tracker import Changes, Incident
from loaderwatch.server.store.protocol import StoredAlert

MAX_SILENCE_S: Final = 30 * 86400
_ID_SEPARATOR: Final = "."  # run ids do not contain it
_SENTENCES: Final = ("title", "cause", "advice")


class UnknownAlert(LoaderwatchError):
    """No alert of this id is known."""

    def __init__(self, alert_id: str) -> None:
        super().__init__(
            f"alert {alert_id[:100]!r} is not known here; it may belong to a run that was deleted"
        )


class Alert(msgspec.Struct):
    """One incident of a run. ``told`` is its severity when last reported outside the page, None if never."""

    id: str
    finding: Finding
    state: AlertState
    opened_ns: int
    updated_ns: int
    closed_ns: int | None = None
    silenced_until_ns: int | None = None
    told: str | None = None
    recovering: bool = False  # the last pass no longer found it

    @property
    def pages(self) -> bool:
        """Whether this alert is more than a remark."""
        return self.finding.severity != "info"

    @property
    def cost_s(self) -> float | None:
        """The training time lost to it, in seconds; None if unknown or for a remark (may be intended)."""
        return self.finding.lost_s if self.pages else None

    def stored(self) -> StoredAlert:
        """Return the alert in the store's form."""
        return from_records(StoredAlert, self, finding=_kept(self.finding))


@dataclass(frozen=True, slots=True)
class Announcement:
    """A message that people outside the page get once."""

    alert: Alert
    resolved: bool
    died: bool = False  # resolved because the alert's process died
    unheard: bool = False  # resolved because the run was silent for long


class AlertBook:
    """All alerts of one run. It is not thread-safe."""

    def __init__(self, run_id: str, stored: Iterable[StoredAlert] = ()) -> None:
        self._run_id = run_id
        self._alerts: dict[str, Alert] = {}
        self._open: dict[str, Alert] = {}  # unresolved alerts, by id
        self._silenced: dict[str, int] = {}  # by the finding's key: end of the silence
        self._unsaved: dict[str, Alert] = {}
        self.urgent = False  # a state changed since the last save, not only numbers
        for alert in map(alert_of, stored):
            self._alerts[alert.id] = alert
            if alert.state != "resolved":
                self._open[alert.id] = alert
            if alert.silenced_until_ns is not None:
                self._silence_key(alert.finding.key, alert.silenced_until_ns)

    def __len__(self) -> int:
        return len(self._alerts)

    def newest_first(self) -> list[Alert]:
        """Return all alerts, newest first."""
        return sorted(self._alerts.values(), key=lambda alert: alert.opened_ns, reverse=True)

    def of_span(self, span: tuple[int, int]) -> list[Alert]:
        """Return the alerts opened in [begin, end), such as an attempt, newest first."""
        return [alert for alert in self.newest_first() if span[0] <= alert.opened_ns < span[1]]

    def open_alerts(self) -> list[Alert]:
        """Return the unresolved alerts."""
        return list(self._open.values())

    def by_key(self, key: str) -> Alert | None:
        """Return the open alert of a cause."""
        return next((alert for alert in self._open.values() if alert.finding.key == key), None)

    def get(self, alert_id: str) -> Alert:
        """Return one alert.

        Raises:
            UnknownAlert
        """
        try:
            return self._alerts[alert_id]
        except KeyError:
            raise UnknownAlert(alert_id) from None

    def apply(self, changes: Changes, now_ns: int) -> list[Announcement]:
        """Apply the tracker's changes; return the announcements for people.

        Incidents carry their own host's time; ``now_ns`` is this server's time, which decides about silences.
        """
        for incident in (*changes.opened, *changes.updated):
            self._open_or_update(incident)
        announcements = []
        for incident in changes.closed:
            alert = self._open.get(self._id(incident.id))
            if alert is not None:
                announcements.append(self._resolve(alert, incident.closed_ns or incident.updated_ns, now_ns))
        absent = {self._id(incident_id) for incident_id in changes.absent}
        for alert in self._open.values():
            alert.recovering = alert.id in absent
        announcements += [self._announce(alert, now_ns) for alert in self._open.values()]
        return [announcement for announcement in announcements if announcement is not None]

    def incidents(self) -> list[Incident]:
        """Return an earlier server's open incidents, for this server's tracker to continue."""
        return [
            from_records(Incident, alert, id=alert.id.rpartition(_ID_SEPARATOR)[2], key=alert.finding.key)
            for alert in self._alerts.values()
        ]

    def acknowledge(self, alert_id: str, now_ns: int) -> Alert:
        """Mark an alert as acknowledged: a person works on it. A resolved alert stays resolved."""
        alert = self.get(alert_id)
        if alert.state != "resolved":
            alert.state, alert.silenced_until_ns, alert.updated_ns = "acknowledged", None, now_ns
            alert.told = alert.finding.severity
            self._silenced.pop(alert.finding.key, None)
            self._changed(alert)
        return alert

    def silence(self, alert_id: str, seconds: float, now_ns: int) -> Alert:
        """Silence this cause in this run for that long; for a resolved alert, in case it returns."""
        alert = self.get(alert_id)
        until_ns = now_ns + int(seconds * 1e9)
        alert.silenced_until_ns, alert.updated_ns = until_ns, now_ns
        self._silenced[alert.finding.key] = until_ns
        if alert.state != "resolved":
            alert.state = "silenced"
        self._changed(alert)
        return alert

    def take_unsaved(self) -> list[StoredAlert]:
        """Return the alerts that changed since the last call, for the store."""
        unsaved = [alert.stored() for alert in self._unsaved.values()]
        self._unsaved.clear()
        self.urgent = False
        return unsaved

    def put_back(self, unsaved: Sequence[StoredAlert]) -> None:
        """Return these alerts again at the next ``take_unsaved``, because the store refused them."""
        for stored in unsaved:
            alert = self._alerts.get(stored.id)
            if alert is not None:
                self._changed(alert)

    def _open_or_update(self, incident: Incident) -> None:
        finding = incident.finding
        alert = self._open.get(self._id(incident.id))
        if alert is None:
            alert = Alert(self._id(incident.id), finding, "firing", incident.opened_ns, incident.updated_ns)
            self._alerts[alert.id] = self._open[alert.id] = alert
            self.urgent = True
        elif alert.finding == finding:
            return
        elif alert.finding.key != finding.key:
            self._escalate(alert, finding)
        alert.finding, alert.updated_ns = self._with_stacks(finding, alert), incident.updated_ns
        self._unsaved[alert.id] = alert

    def _escalate(self, alert: Alert, finding: Finding) -> None:
        """Let another finding take over the alert; if it is graver, the alert is reported again.

        A person who acknowledged or silenced a warning did not mean an alert that is critical now.
        """
        self.urgent = True
        if finding.code == "crashed" or (finding.severity == "critical" and alert.told != "critical"):
            alert.told = None
            if alert.state != "firing":
                alert.state, alert.silenced_until_ns = "firing", None

    def _id(self, incident_id: str) -> str:
        return f"{self._run_id}{_ID_SEPARATOR}{incident_id}"

    @staticmethod
    def _with_stacks(finding: Finding, alert: Alert) -> Finding:
        """Keep the alert's stacks if the new finding has none."""
        if finding.stacks or not alert.finding.stacks:
            return finding
        return msgspec.structs.replace(finding, stacks=alert.finding.stacks)

    def _resolve(self, alert: Alert, closed_ns: int, now_ns: int) -> Announcement | None:
        silenced = self._is_silenced(alert.finding.key, now_ns)
        alert.state, alert.closed_ns, alert.updated_ns = "resolved", closed_ns, closed_ns
        alert.recovering = False
        if alert.finding.ended_ns is None:
            alert.finding = msgspec.structs.replace(alert.finding, ended_ns=closed_ns)
        del self._open[alert.id]
        self._changed(alert)
        # the end of a crash is not reported
        if not alert.told or silenced or alert.finding.code == "crashed":
            return None
        return Announcement(alert, resolved=True)

    def _announce(self, alert: Alert, now_ns: int) -> Announcement | None:
        """Update an open alert's silence; announce it at its first page, after a silence or if graver."""
        if self._is_silenced(alert.finding.key, now_ns):
            if alert.state == "firing":
                alert.state, alert.silenced_until_ns = "silenced", self._silenced[alert.finding.key]
                self._changed(alert)
            return None
        if alert.state == "silenced":
            alert.state, alert.silenced_until_ns = "firing", None
            self._changed(alert)
        if alert.told or not alert.pages or alert.state != "firing":
            return None
        alert.told = alert.finding.severity
        return Announcement(alert, resolved=False)

    def _changed(self, alert: Alert) -> None:
        self._unsaved[alert.id] = alert
        self.urgent = True

    def _is_silenced(self, key: str, now_ns: int) -> bool:
        return now_ns < self._silenced.get(key, 0)

    def _silence_key(self, key: str, until_ns: int) -> None:
        self._silenced[key] = max(until_ns, self._silenced.get(key, 0))


def run_of(alert_id: str) -> str:
    """Return the id of the run that an alert belongs to."""
    return alert_id.partition(_ID_SEPARATOR)[0]


def alert_of(stored: StoredAlert) -> Alert:
    """Make an alert from a stored one. If it pages, it counts as already reported."""
    finding = _finding_of(msgspec.json.decode(stored.finding))
    return from_records(
        Alert,
        stored,
        finding=finding,
        state=stored.state if stored.state in ("firing", "acknowledged", "silenced") else "resolved",
        told=finding.severity if finding.severity != "info" and stored.state != "silenced" else None,
    )


def _kept(finding: Finding) -> str:
    """Return a finding as JSON, with English sentences beside its other fields, as every version expects."""
    kept = msgspec.to_builtins(with_texts(finding))
    for entry in (kept, *kept["folded"]):
        entry |= entry.pop("texts")
    return msgspec.json.encode(kept).decode()


def _finding_of(kept: Any) -> Finding:
    """Return a finding from its JSON object.

    Raises:
        msgspec.ValidationError: the object is not a finding.
    """
    folded = kept.get("folded") if isinstance(kept, dict) else None
    for entry in (kept, *(folded if isinstance(folded, list) else ())):
        if isinstance(entry, dict):
            entry["texts"] = {part: entry.pop(part) for part in _SENTENCES if part in entry}
    return msgspec.convert(kept, Finding)


def shape(alert: Alert, *, stack_texts: bool = True) -> answers.Finding:
    """Return the alert in the form of ``GET /runs/{run}/findings``."""
    finding = alert.finding
    return from_records(
        answers.Finding,
        alert,
        finding,
        stacks=[stack_of(dump, text=stack_texts) for dump in finding.stacks],
        folded=[
            from_records(answers.Folded, folded_finding, title_text=text_of(folded_finding, "title"))
            for folded_finding in finding.folded
        ],
        silenced_until=None if alert.silenced_until_ns is None else alert.silenced_until_ns / 1e9,
    )


def stack_of(dump: StackDump, *, text: bool = True) -> answers.Stack:
    """Return a stack in the API's form, with or without its text."""
    return from_records(answers.Stack, dump, **{} if text else {"text": ""})
