"""One cause, one finding: what explains what within a window, and over time."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderwatch.core.answers import Evidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.incidents.explained_findings import MOST_FOLDED, explains, fold
from loaderwatch.detect.incidents.tracker import Tracker
from tests.fakes.findings import finding_of
from tests.unit.detect.build import T0, S


def finding(key: str, scenario: str, severity: str = "warning", **fields: Any) -> Finding:
    code, *parts = key.split(":")
    base: dict[str, Any] = {
        "key": key,
        "code": code,
        "loader": int(parts[0]) if parts and parts[0].isdecimal() else None,
        "aspect": parts[-1] if parts and not parts[-1].isdecimal() else "",
        "scenario": scenario,
        "severity": severity,
        "confidence": 0.8,
        "began_ns": T0,
        "title": f"{scenario} of {key}.",
        "cause": "c",
        "advice": "a",
        "evidence": [Evidence(label="age", value=1.0, unit="s")],
        "rank": 0,
        "host": "host-1",
    }
    return finding_of(**(base | fields))


HANG = finding("hung:rank0", "S22", "critical", worker=1, sample_indices=[333], lost_s=40.0)
HANG_OF_ONE = finding("hung:rank0", "S36", "critical", loader=0)
SLOW_SAMPLE = finding("input-bound:0:spikes", "S20", worker=1, sample_indices=[333], lost_s=45.0)
SHM = finding("running-out:shm:host-1", "S39")
DESCRIPTORS = finding("running-out:descriptors:rank0", "S40", "critical")
MEMORY = finding("running-out:memory:host-1", "S24")
STRAGGLER = finding("input-bound:0:steady", "S43", rank=1)
SWINGS = finding("gpu-sawtooth", "S26")
SWINGS_HALF = finding("gpu-sawtooth", "S26", gain_ceiling_ratio=0.5)
TOO_FEW = finding("input-bound:0:steady", "S02")


def crash(scenario: str, **fields: Any) -> Finding:
    return finding("crashed:rank0", scenario, "critical", **fields)


@pytest.mark.parametrize(
    ("cause", "effect"),
    [
        (HANG, SLOW_SAMPLE),
        (HANG, finding("input-bound:1:steady", "S02", rank=1, began_ns=T0 + S)),
        (finding("hung:rank0", "S37", "critical"), SHM),
        (finding("hung:rank0", "S41", "critical"), DESCRIPTORS),
        (finding("hung:rank1", "S36", "critical", rank=1), finding("hung:collective", "S45", "critical")),
        (SLOW_SAMPLE, finding("hung:rank0", "S36", "info")),  # "it still reads" must not hide an alert
        (finding("hung:rank0", "S36", "info"), finding("input-bound:0:spikes", "S20", "info")),
        (crash("S39"), SHM),
        (crash("S40"), DESCRIPTORS),
        (crash("S37"), MEMORY),
        (crash("S37"), HANG),
        (crash("S37"), finding("caught-error:rank0", "S37", "critical")),
        (crash("S37"), finding("input-bound:0:spikes", "S20", "info")),
        (crash("S40"), finding("hung:collective", "S45", "critical")),
        (STRAGGLER, finding("slow-step:S26", "S26", "info", rank=0)),
        (MEMORY, finding("input-bound:0:steady", "S09", "critical")),
        (finding("input-bound:0:steady", "S04"), finding("input-bound:1:steady", "S04")),
        (finding("fast-forward:0", "S34", "info"), TOO_FEW),
        (finding("slow-step:S26", "S26", "info"), finding("hung:rank0", "S26", "info")),
        (finding("hung:rank0", "S26", "warning"), finding("slow-step:S26", "S26", "info")),
        (finding("slow-step:S25", "S25"), SWINGS),
        (finding("slow-step:S48", "S48", "info", rank=1), SWINGS),
        (finding("slow-step:S48", "S48", gain_ceiling_ratio=0.3), SWINGS_HALF),
        (SWINGS, finding("slow-step:S26", "S26", "info")),
        (SWINGS, finding("slow-step:S26", "S26", "info", rank=1)),
        (SWINGS, finding("slow-step:S26", "S26", "warning")),
        (finding("caught-error:rank0", "S37", "critical"), finding("epoch-boundary:0", "S28")),
        (finding("caught-error:rank0", "S37", "critical"), finding("slow-evaluation:1", "S55", "info")),
        (STRAGGLER, SWINGS),
        (finding("slow-step:S26", "S26"), finding("slow-step:gpu:rank0", "S48")),
    ],
    ids=lambda each: each.scenario,
)
def test_one_cause(cause: Finding, effect: Finding) -> None:
    assert explains(cause, effect)
    assert not explains(effect, cause), "else both would vanish"
    (kept,) = fold([effect, cause])
    assert (kept.key, [folded.key for folded in kept.folded]) == (cause.key, [effect.key])
    (folded,) = kept.folded
    assert (folded.scenario, folded.title, folded.evidence) == (
        effect.scenario,
        effect.title,
        effect.evidence,
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (HANG, finding("input-bound:0:spikes", "S20", rank=1, began_ns=T0 - S)),  # before, and elsewhere
        (finding("hung:rank0", "S26", "warning"), SLOW_SAMPLE),
        (HANG, finding("input-bound:0:steady", "S02", began_ns=T0 - S)),  # it was slow before it hung
        (HANG_OF_ONE, finding("input-bound:1:spikes", "S20", began_ns=T0 - S)),  # in an earlier loader
        (finding("hung:rank0", "S36", "info", loader=0), finding("input-bound:1:spikes", "S20")),
        (HANG, SHM),
        (crash("S39"), finding("running-out:shm:host-2", "S39", host="host-2")),
        (crash("S40"), finding("running-out:descriptors:rank1", "S40", rank=1)),
        (crash("S39"), DESCRIPTORS),
        (crash("S37"), SLOW_SAMPLE),
        (STRAGGLER, finding("slow-step:S26", "S26", "info", rank=1)),
        (STRAGGLER, finding("slow-step:S25", "S25", rank=0)),
        (finding("slow-step:S48", "S48", gain_ceiling_ratio=0.08), SWINGS_HALF),  # too little for that
        (finding("slow-step:S17", "S17"), finding("gpu-sawtooth:pauses", "S26")),
        (finding("slow-step:S26", "S26"), finding("slow-step:gpu:rank1", "S48", rank=1)),
        (finding("slow-step:S26", "S26", "info"), finding("slow-step:gpu:rank0", "S48")),
        (TOO_FEW, finding("input-bound:1:steady", "S02")),  # each loader has its own num_workers
        (finding("input-bound:0:steady", "S04"), finding("input-bound:1:steady", "S04", host="host-2")),
        (finding("fast-forward:0", "S34", "info"), finding("input-bound:1:steady", "S02")),
        (finding("running-out:memory:host-1", "S24", "info"), finding("input-bound:0:steady", "S09")),
    ],
    ids=lambda each: each.scenario,
)
def test_two_causes(one: Finding, other: Finding) -> None:
    assert not explains(one, other)
    assert [each.key for each in fold([one, other])] == [one.key, other.key]


def test_an_effect_of_an_effect_lies_under_the_cause() -> None:
    wait = finding("input-bound:0:spikes", "S20")
    (kept,) = fold([wait, HANG, crash("S37")])
    assert kept.key == "crashed:rank0"
    assert {folded.key for folded in kept.folded} == {"hung:rank0", "input-bound:0:spikes"}


def test_a_cause_is_as_grave_as_what_it_does() -> None:
    (kept,) = fold([MEMORY, finding("input-bound:0:steady", "S09", "critical", lost_s=7.0)])
    assert (kept.scenario, kept.severity, kept.lost_s) == ("S24", "critical", 7.0)
    (kept,) = fold([finding("fast-forward:0", "S34", "info"), TOO_FEW])
    assert kept.severity == "info", "a resumed run never alerts"


KINDS = [
    HANG, SLOW_SAMPLE, SHM, DESCRIPTORS, MEMORY, STRAGGLER, crash("S37"), crash("S39"), crash("S40"),
    finding("hung:rank1", "S37", "critical", rank=1), finding("hung:rank0", "S26", "warning"),
    finding("hung:rank0", "S26", "info"), finding("hung:rank0", "S36", "info"),
    finding("hung:collective", "S45", "critical"), finding("slow-step:S26", "S26", "info"),
    finding("fast-forward:0", "S34", "info"), finding("input-bound:0:steady", "S09"),
    finding("input-bound:1:steady", "S09"), finding("input-bound:1:spikes", "S21"),
    finding("epoch-boundary:0", "S28"),
]  # fmt: skip


@given(st.lists(st.sampled_from(KINDS), unique_by=lambda each: each.key, max_size=MOST_FOLDED + 1))
def test_nothing_vanishes(found: list[Finding]) -> None:
    kept = fold(found)
    keys = [each.key for each in kept] + [folded.key for each in kept for folded in each.folded]
    assert sorted(keys) == sorted(each.key for each in found)


# ---- over time


class Run:
    """A tracker, driven second by second; ``ids`` are the incidents that were opened."""

    def __init__(self) -> None:
        self.tracker = Tracker("run")
        self.second = 0
        self.ids: list[str] = []

    def see(self, *findings: Finding, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.second += 1
            changes = self.tracker.update(fold(findings), T0 + self.second * S)
            self.ids += [incident.id for incident in changes.opened]
            touched = [each.id for each in itertools.chain(changes.opened, changes.updated, changes.closed)]
            assert len(touched) == len(set(touched)), "an incident is in one list at most"

    @property
    def now(self) -> Finding:
        (incident,) = self.tracker.incidents
        assert incident.key == incident.finding.key
        return incident.finding


def test_a_slow_sample_that_hangs_stays_one_incident() -> None:
    run = Run()
    run.see(SLOW_SAMPLE, seconds=8)
    run.see(HANG, SLOW_SAMPLE)
    assert (run.now.scenario, run.now.severity, run.now.lost_s) == ("S22", "critical", 45.0)
    (folded,) = run.now.folded
    assert (folded.scenario, folded.warned_s) == ("S20", 6.0)
    run.see(HANG, seconds=30)
    assert [folded.warned_s for folded in run.now.folded] == [6.0], "it is not forgotten"
    run.see(SLOW_SAMPLE)
    assert run.now.scenario == "S22", "a moment without the hang is no new alert"
    run.see(seconds=5)
    assert not run.tracker.incidents
    assert len(run.ids) == 1


@pytest.mark.parametrize(("warning", "end"), [(SHM, crash("S39")), (DESCRIPTORS, crash("S40"))])
def test_a_crash_that_was_foretold_stays_one_incident(warning: Finding, end: Finding) -> None:
    run = Run()
    run.see(warning, seconds=10)
    run.see(seconds=10)  # a forecast may waver
    run.see(end, seconds=5)
    assert (run.now.code, run.now.severity) == ("crashed", "critical")
    assert [(folded.scenario, folded.warned_s) for folded in run.now.folded] == [(warning.scenario, 18.0)]
    assert len(run.ids) == 1


def test_a_remark_that_led_up_to_it_was_no_warning() -> None:
    run = Run()
    run.see(finding("input-bound:0:spikes", "S20", "info"), seconds=5)
    run.see(HANG)
    assert [folded.warned_s for folded in run.now.folded] == [None]


def test_what_was_known_of_the_hang_stays_known_of_the_crash() -> None:
    run = Run()
    run.see(HANG, seconds=3)
    run.see(crash("S37"))
    assert (run.now.code, run.now.worker, run.now.sample_indices) == ("crashed", 1, [333])


def test_the_cause_may_be_found_after_its_effect() -> None:
    run = Run()
    thrash = finding("input-bound:0:steady", "S09", lost_s=3.0)
    run.see(thrash, seconds=5)
    run.see(thrash, MEMORY, seconds=5)
    assert (run.now.scenario, [folded.scenario for folded in run.now.folded]) == ("S24", ["S09"])
    assert len(run.ids) == 1


def test_other_trouble_is_another_incident() -> None:
    run = Run()
    run.see(SHM, TOO_FEW, seconds=5)
    run.see(SHM, TOO_FEW, finding("hung:rank0", "S22", "critical", began_ns=T0 + 5 * S), seconds=3)
    assert len(run.ids) == 3


def test_what_a_cause_hid_is_told_when_the_cause_is_gone() -> None:
    run = Run()
    thrash = finding("input-bound:0:steady", "S09")
    run.see(MEMORY, thrash, seconds=5)
    run.see(thrash, seconds=25)
    assert [incident.finding.scenario for incident in run.tracker.incidents] == ["S09"]
    assert len(run.ids) == 2


def test_a_new_server_takes_the_folded_up() -> None:
    before = Run()
    before.see(SHM, seconds=10)
    before.see(crash("S39"))
    after = Run()
    after.tracker.restore(before.tracker.incidents)
    after.see(crash("S39"))
    assert [folded.warned_s for folded in after.now.folded] == [8.0]
    assert not after.ids


def test_folded_are_bounded() -> None:
    waits = [finding(f"input-bound:{n}:steady", "S02", began_ns=T0 + S) for n in range(2 * MOST_FOLDED)]
    (kept,) = fold([HANG, *waits])
    assert len(kept.folded) == MOST_FOLDED


def test_nobody_dies_twice() -> None:
    run = Run()
    run.see(SHM, seconds=5)
    run.see(crash("S39", pid=7))
    closed = run.tracker.close_all(T0 + 60 * S).closed
    run.see(crash("S39", pid=7), seconds=3)
    assert not run.tracker.incidents
    after = Run()
    after.tracker.restore(closed)
    after.see(crash("S39", pid=7))
    assert not after.ids
    after.see(crash("S39", pid=8))
    assert len(after.ids) == 1, "another process did"


def waits(scenario: str, kind: str, lost_s: float, loader: int = 0) -> Finding:
    return finding(f"input-bound:{loader}:{kind}", scenario, lost_s=lost_s)


@pytest.mark.parametrize("scenario", ["S02", "S03", "S07", "S08", "S14", "S23"])
def test_a_refilled_buffer_explains_workers_that_seem_short(scenario: str) -> None:
    refills, wait = waits("S33", "spikes", 10.0), waits(scenario, "steady", 5.0)
    (alert,) = fold([wait, refills])
    assert alert.scenario == "S33"
    assert [each.scenario for each in alert.folded] == [scenario]
    assert not explains(refills, waits(scenario, "steady", 5.0, loader=1))
    assert explains(refills, waits(scenario, "steady", 20.0)) == (scenario == "S23")


@pytest.mark.parametrize("scenario", ["S22", "S23", "S25", "S49"])
def test_what_many_fetches_suffer_from_explains_the_long_waits_for_single_ones(scenario: str) -> None:
    steady = waits(scenario, "steady", 5.0)
    assert [one.scenario for one in fold([waits("S20", "spikes", 9.0), steady])] == [scenario]
    assert not explains(steady, waits("S20", "spikes", 9.0, loader=1))
    assert not explains(waits(scenario, "spikes", 5.0), waits("S20", "steady", 9.0))


def test_the_compiler_explains_the_garbage_that_it_leaves() -> None:
    compiles = finding("slow-step:S27", "S27", lost_s=6.0)
    collects = finding("slow-step:S25", "S25", lost_s=1.4)
    (alert,) = fold([collects, compiles])
    assert (alert.scenario, [each.scenario for each in alert.folded]) == ("S27", ["S25"])
    assert not explains(compiles, finding("slow-step:S25", "S25", lost_s=9.0)), (
        "there is more garbage than that"
    )
