"""Another thread of the process computes in Python, so the training thread waits for the interpreter."""

from __future__ import annotations

import pytest

from loaderwatch.core.facts import INTERPRETER_HELD
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from tests.unit.detect import stacks
from tests.unit.detect.build import RankBuilder, run


def trained(
    main: float, others: float, *, wait_s: float = 0.0, seconds: int = 30, woken: float = 160.0
) -> list[Finding]:
    """What is found in half a minute of steps of 0.1 s, beside a thread that takes so much of a core."""
    builder = RankBuilder()
    for second in range(seconds):
        builder.process(
            worker=-1,
            pid=100,
            cpu=main + others,
            main_cpu_ratio=main,
            run_delay_ratio=0.3,
            voluntary_switches=second * woken,
        )
        for _ in range(10):
            builder.fetch(0, 0.001, cpu=0.5).step(wait_s, 0.1 - wait_s, ready=4)
    for _ in range(2):
        builder.stack(-1, 100, stacks.SCORER, why=INTERPRETER_HELD)
    return [finding for finding in detect(RunEvidence(run(builder))) if finding.scenario == "S14"]


def test_the_thread_is_named_with_what_it_costs() -> None:
    (finding,) = trained(0.2, 0.4)
    assert finding.title == (
        "Training loses 50 % of the time (measured over 30 s) to another thread,"
        " which holds the GIL at train.py:66 in edit_distance; not the data loader."
    )
    assert (finding.code, finding.severity) == ("slow-step", "critical")
    assert "160 times a second" in finding.cause
    assert finding.gain_ceiling_ratio == pytest.approx(0.5, abs=0.01)
    assert len(finding.stacks) == 1


def test_one_that_takes_less_is_a_warning_or_nothing() -> None:
    assert [finding.severity for finding in trained(0.45, 0.4)] == ["warning"]
    assert trained(0.6, 0.4) == []


def test_what_the_loop_waits_for_data_is_told_once() -> None:
    """Batches lie ready, and taking them needs the interpreter as well."""
    (finding,) = trained(0.2, 0.4, wait_s=0.03)
    assert "another thread, which holds the GIL" in finding.title
    assert [folded.code for folded in finding.folded] == ["input-bound"]
    assert "process of its own" in finding.advice
