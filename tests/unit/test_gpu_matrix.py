"""The matrix on the virtual GPU: what counts as right, and what its last line says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.gpu_matrix import Row, judge
from tests.gpu.matrix import Ran, Run
from tests.gpu.rows import CAUSES, LOOK_ALIKES, loader_runs, matrix

LOGGING = next(run for run in CAUSES if run.name == "logging")


def finding(
    scenario: str = "S26", title: str = "… as it waits for the loop's own work.", severity: str = "warning"
) -> dict[str, Any]:
    return {"scenario": scenario, "title": title, "severity": severity, "gain_ceiling_ratio": 0.2}


def truth(data_s: list[float], **idle: float) -> dict[str, Any]:
    return {"data_s": data_s, "trained_s": 10.0, "idle": {"data": sum(data_s) / 10, **idle}}


def ran(run: Run = LOGGING, *findings: dict[str, Any], said: float = 0.0, **idle: float) -> Ran:
    rows = [{"data_wait_ratio": 0.0}]
    return Ran(run, [truth([0.0], **idle)], {"data_wait_ratio": said, "ranks": rows}, list(findings), {})


def row(name: str = "one", **fields: Any) -> Row:
    base: dict[str, Any] = {
        "line": "",
        "starved_error": 0.01,
        "severe": True,
        "named": True,
        "ceiling_error": 0.04,
    }
    return Row(name=name, **(base | fields))


def test_a_cause_is_right_that_was_told_first_and_alone() -> None:
    assert ran(LOGGING, finding()).named
    assert not ran(LOGGING).named
    assert not ran(LOGGING, finding("S17")).named
    assert not ran(LOGGING, finding(title="… as it waits for a checkpoint.")).named
    assert not ran(LOGGING, finding(), finding("S02")).named
    assert ran(LOGGING, finding(), finding("S02", severity="info")).named


def test_the_text_of_one_cause_is_not_that_of_another() -> None:
    """Its explanation names checkpoints and copies, but its title does not."""
    logging = finding()
    for run in CAUSES:
        assert ran(run, logging).named == (run.because == LOGGING.because), run.name


def test_what_may_be_meant_is_a_warning_at_most() -> None:
    late = next(run for run in CAUSES if run.scenario == "S48")
    told = finding("S48", "Rank 1 works 2 s in each iteration", "warning")
    assert ran(late, told).named
    assert ran(late, told, step=0.4).due() == {"warning"}
    assert ran(late, told, step=0.2).due() == {None}


@pytest.mark.parametrize(("idle", "due"), [(0.05, None), (0.2, "warning"), (0.5, "critical")])
def test_the_severity_is_that_of_the_idle_time(idle: float, due: str | None) -> None:
    assert ran(LOGGING, own=idle).due(0.02) == {due}
    assert ran(replace(LOGGING, silent=True), own=idle).due(0.02) == {None}
    assert ran(LOGGING, own=0.09).due(0.02) == {None, "warning"}


def test_ranks_that_take_turns_lack_data_along_the_critical_path() -> None:
    rows = [{"data_wait_ratio": 0.2}, {"data_wait_ratio": 0.3}]
    of = Ran(
        Run("turns", (), ranks=2),
        [truth([2.0, 0.0, 0.0]), truth([0.0, 3.0, 0.0])],
        {"data_wait_ratio": 0.5, "ranks": rows},
        [],
        {},
    )
    assert of.starved == of.idle == 0.5
    assert of.starved_error == pytest.approx(0.0)
    assert replace(of, summary={"data_wait_ratio": 0.25, "ranks": rows}).starved_error == pytest.approx(0.25)
    rows[1]["data_wait_ratio"] = 0.4
    assert of.starved_error == pytest.approx(0.1)


def test_the_last_line_is_the_sum_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        row(),
        row("two", starved_error=0.015),
        row("three", ceiling_error=0.045),
        row("four", named=None),
    ]
    assert judge(rows) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "4 rows: causes right 100% (3 of 3), largest starved error 1.5 points (two),"
        " largest ceiling error 4.5 points (three)"
    )


@pytest.mark.parametrize(
    "missed", [{"starved_error": 0.03}, {"severe": False}, {"ceiling_error": 0.06}, {"named": False}]
)
def test_a_bound_that_is_missed_is_the_exit_code(missed: dict[str, Any]) -> None:
    assert judge([row(), row(**missed)]) == 1


def test_one_cause_in_ten_may_be_another() -> None:
    assert judge([row(str(number), named=number > 0) for number in range(10)]) == 0
    assert judge([row(str(number), named=number > 1) for number in range(19)]) == 1


def test_the_matrix_is_that_of_the_loaders_and_of_each_cause() -> None:
    runs = matrix()
    assert len({run.name for run in runs}) == len(runs)
    assert len(list(loader_runs())) == 36
    assert {run.scenario for run in runs} >= {"S02", "S17", "S26", "S28", "S48", "S50", "S51", "S55"}
    assert all(run.scenario and run.because and run.without for run in CAUSES)
    assert all(run.without for run in runs if run.name.startswith("200-"))
    assert all(run.silent and not run.scenario for run in LOOK_ALIKES)


def test_on_real_devices_run_the_rows_for_which_there_are_enough() -> None:
    one, two = matrix(1), matrix(2)
    assert {run.ranks for run in one} == {1}
    assert {run.ranks for run in two} == {1, 2}
    assert [run.name for run in one if "nccl" in run.name] == ["95-nccl-1", "200-nccl-1"]
    assert sum("nccl" in run.name for run in two) == 4
    assert not any(run.gpu for run in two)
