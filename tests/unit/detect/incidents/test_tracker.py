"""Incidents: opening, merging, closing, resuming."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderwatch.core.answers import Text
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.incidents.tracker import Incident, Tracker
from loaderwatch.detect.lost_time_lines import KNOWN_COST, LINE
from tests.fakes.findings import finding_of
from tests.unit.detect.build import T0, S


def finding(code: str = "input-bound", **fields: Any) -> Finding:
    base: dict[str, Any] = {
        "key": f"{code}:0",
        "code": code,
        "scenario": "S02",
        "severity": "warning",
        "confidence": 0.8,
        "began_ns": T0,
        "title": "t",
        "cause": "c",
        "advice": "a",
        "lost_s": 1.0,
    }
    return finding_of(**(base | fields))


def at(second: float) -> int:
    return T0 + int(second * S)


def opened(tracker: Tracker, second: float = 0.0, **fields: Any) -> Incident:
    for tick in range(3):
        changes = tracker.update([finding(**fields)], at(second + tick))
    (incident,) = changes.opened
    return incident


def test_a_stall_must_hold_for_three_windows() -> None:
    tracker = Tracker("run")
    assert not tracker.update([finding()], at(0)).opened
    assert not tracker.update([], at(1)).opened
    assert not tracker.update([finding()], at(2)).opened
    assert not tracker.update([finding()], at(3)).opened
    (incident,) = tracker.update([finding()], at(4)).opened
    assert incident.opened_ns == at(4)
    assert incident.closed_ns is None


def test_a_hang_opens_at_once() -> None:
    assert Tracker("run").update([finding("hung")], at(0)).opened


def test_it_stays_open_through_a_short_gap_and_closes_after_a_long_one() -> None:
    tracker = Tracker("run")
    incident = opened(tracker)
    assert not tracker.update([], at(5)).closed
    (updated,) = tracker.update([finding(lost_s=3.0)], at(6)).updated
    assert (updated.id, updated.finding.lost_s) == (incident.id, 3.0)
    assert not tracker.update([], at(10)).closed
    (closed,) = tracker.update([], at(11.5)).closed
    assert (closed.id, closed.closed_ns, closed.finding.ended_ns) == (incident.id, at(11.5), at(6))
    assert not tracker.incidents


def test_what_the_last_window_did_not_show_is_absent_until_it_is_back_or_over() -> None:
    tracker = Tracker("run")
    incident = opened(tracker)
    assert tracker.update([finding()], at(3)).absent == frozenset()
    assert tracker.update([], at(4)).absent == {incident.id}
    assert tracker.update([finding()], at(5)).absent == frozenset()
    assert tracker.update([], at(6)).absent == {incident.id}
    last = tracker.update([], at(20))
    assert (len(last.closed), last.absent) == (1, frozenset())


def test_the_same_trouble_later_is_another_incident() -> None:
    tracker = Tracker("run")
    first = opened(tracker)
    tracker.update([], at(20))
    assert opened(tracker, 30).id != first.id


def test_ids_depend_on_run_key_and_time_only() -> None:
    assert opened(Tracker("a")).id == opened(Tracker("a")).id
    assert opened(Tracker("a")).id != opened(Tracker("b")).id


def test_lost_time_goes_on_when_the_incident_outgrows_the_window() -> None:
    tracker = Tracker("run")
    opened(tracker, lost_s=2.0)
    for second in range(3, 300):
        since = max(0, second - 60)  # the window reaches a minute back; half the time is lost
        tracker.update([finding(began_ns=at(since), lost_s=(second - since) / 2)], at(second))
    (incident,) = tracker.incidents
    assert incident.finding.began_ns == at(0)
    assert incident.finding.lost_s == pytest.approx(150, rel=0.05)


@given(st.lists(st.tuples(st.floats(0, 50), st.integers(0, 30)), min_size=1, max_size=30))
def test_lost_time_never_shrinks(steps: list[tuple[float, int]]) -> None:
    tracker = Tracker("run")
    last = opened(tracker, lost_s=1.0).finding.lost_s or 0.0
    for number, (lost, began) in enumerate(steps):
        tracker.update([finding(lost_s=lost, began_ns=at(began))], at(10 + number))
        now = tracker.incidents[0].finding.lost_s
        assert now is not None
        assert now >= last
        last = now


def test_a_surer_scenario_refines_a_less_sure_one_and_not_the_other_way() -> None:
    tracker = Tracker("run")
    opened(tracker, scenario="S20", confidence=0.8, title="one sample")
    (incident,) = tracker.update([finding(scenario="S21", confidence=0.9, title="jitter")], at(3)).updated
    assert incident.finding.title == "jitter"
    (incident,) = tracker.update([finding(scenario="S20", confidence=0.8, title="one sample")], at(4)).updated
    assert (incident.finding.scenario, incident.finding.title) == ("S21", "jitter")


def test_a_less_sure_rule_of_the_same_scenario_waits_until_the_surer_one_is_gone_for_long() -> None:
    """What grows from step to step is not found in each window; work in every step is."""
    tracker = Tracker("run")
    opened(tracker, rule="grows", confidence=0.85, title="grows")

    def told(second: float, rule: str, confidence: float) -> str:
        new = finding(rule=rule, confidence=confidence, title=rule)
        (incident,) = tracker.update([new], at(second)).updated
        return incident.finding.title

    assert [told(second, "in-each", 0.75) for second in (3, 10)] == ["grows", "grows"]
    assert told(12, "grows", 0.85) == "grows"
    assert [told(second, "in-each", 0.75) for second in (20, 26)] == ["grows", "grows"]
    assert told(28, "in-each", 0.75) == "in-each"
    assert told(29, "grows", 0.85) == "grows"


def test_a_less_sure_rule_alarms_nobody_while_the_surer_one_wavers() -> None:
    """A live source is a remark; for two windows its batches do not come by the clock."""
    tracker = Tracker("run")
    opened(tracker, scenario="S08", rule="live-source", severity="info", confidence=0.92)
    slow = finding(scenario="S08", rule="slow-storage", severity="critical", confidence=0.8)
    (incident,) = tracker.update([slow], at(3)).updated
    assert (incident.finding.rule, incident.finding.severity) == ("live-source", "info")
    (incident,) = tracker.update([slow], at(20)).updated
    assert (incident.finding.rule, incident.finding.severity) == ("slow-storage", "critical")


def test_a_hang_alarms_although_a_surer_rule_was_only_a_remark() -> None:
    """At first a process still read something."""
    tracker = Tracker("run")
    reads = finding("hung", scenario="S36", rule="a", severity="info", confidence=0.9)
    tracker.update([reads], at(1))
    silent = msgspec.structs.replace(reads, rule="b", severity="critical", confidence=0.7)
    (incident,) = tracker.update([silent], at(2)).updated
    assert incident.finding.severity == "critical"


def test_a_kept_finding_takes_the_newer_lines() -> None:
    tracker = Tracker("run")
    opened(tracker, rule="grows", confidence=0.85, also=[Text("still-reads"), Text(LINE, {"samples": 20})])
    lines = [Text(LINE, {"samples": 40}), Text(KNOWN_COST, {})]
    for second, new, kept in ((3, lines, lines), (4, [], lines)):
        less_sure = finding(rule="in-each", confidence=0.75, also=[Text("is-slow"), *new])
        (incident,) = tracker.update([less_sure], at(second)).updated
        assert (incident.finding.rule, incident.finding.also) == ("grows", [Text("still-reads"), *kept])


def test_a_graver_finding_takes_the_place_of_a_remark() -> None:
    tracker = Tracker("run")
    opened(tracker, scenario="S09", severity="info", confidence=0.9, title="warming up")
    (incident,) = tracker.update([finding(confidence=0.5, title="too slow")], at(3)).updated
    assert (incident.finding.severity, incident.finding.title) == ("warning", "too slow")


def test_samples_are_gathered_and_bounded() -> None:
    tracker = Tracker("run")
    opened(tracker, sample_indices=[1, 2])
    for number in range(200):
        tracker.update([finding(sample_indices=[number])], at(3 + number))
    (incident,) = tracker.incidents
    assert len(incident.finding.sample_indices) == 64
    assert incident.finding.sample_indices[-1] == 199


def test_one_finding_per_key_the_surest() -> None:
    tracker = Tracker("run")
    (incident,) = tracker.update(
        [finding("hung", confidence=0.5, title="b"), finding("hung", confidence=0.9, title="a")], at(0)
    ).opened
    assert incident.finding.title == "a"


def test_a_new_server_takes_open_incidents_up() -> None:
    before = Tracker("run")
    incident = opened(before)
    stored = msgspec.json.decode(msgspec.json.encode(before.incidents), type=list[Incident])
    after = Tracker("run")
    after.restore([*stored, msgspec.structs.replace(incident, key="old", closed_ns=at(1))])
    assert [each.id for each in after.incidents] == [incident.id]
    assert not after.update([], at(3600)).closed  # the gap counts from now on
    assert after.update([], at(3606)).closed
    again = Tracker("run")
    again.restore(stored)
    (updated,) = again.update([finding()], at(100)).updated
    assert updated.id == incident.id


def test_the_end_of_the_run_closes_everything() -> None:
    tracker = Tracker("run")
    opened(tracker)
    (closed,) = tracker.close_all(at(9)).closed
    assert closed.closed_ns == at(9)
    assert not tracker.incidents


def test_an_incident_that_ends_between_two_looks_has_lost_time_until_its_end() -> None:
    """A hang loses all of the time, a stall the share that it lost before."""
    tracker = Tracker("run")
    tracker.update([finding("hung", lost_s=11.0)], at(11))
    opened(tracker, 9, lost_s=5.5)  # last seen at 11, too
    closed = {one.finding.code: one.finding for one in tracker.close_all(at(14)).closed}
    assert {one.ended_ns for one in closed.values()} == {at(14)}
    assert closed["hung"].lost_s == pytest.approx(14.0)
    assert closed["input-bound"].lost_s == pytest.approx(7.0)


def test_what_is_over_when_a_server_comes_back_ended_when_it_was_last_seen() -> None:
    tracker, again = Tracker("run"), Tracker("run")
    tracker.update([finding("hung", lost_s=11.0)], at(11))
    again.restore(tracker.incidents)
    again.update([], at(600))
    (closed,) = again.update([], at(603)).closed
    assert (closed.finding.ended_ns, closed.finding.lost_s) == (at(11), 11.0)
