from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from loaderwatch.core.facts import GpuInfo, ProcessState, Progress
from loaderwatch.core.wire import Envelope
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.server.live.summary import state_now, summary_of
from loaderwatch.server.store.protocol import StoredRun
from loaderwatch.server.window.builder import WindowBuilder
from loaderwatch.server.window.totals import RunTotals
from tests.fakes.runs import SECOND, T0, envelope, process, span, steps, table
from tests.unit.detect.build import RankBuilder, run

END = T0 + 60 * SECOND


def _summary(*envelopes: Envelope, **more: Any) -> dict[str, Any]:
    builder = WindowBuilder("run-1")
    for each in envelopes:
        builder.add(each)
    summary = summary_of(RunEvidence(builder.window()), builder.totals(), **({"state": "live"} | more))
    found: dict[str, Any] = msgspec.to_builtins(summary)
    return found


def _steady(wait_s: float, step_s: float, rank: int = 0, **more: Any) -> dict[str, bytes]:
    count = int(60 / (wait_s + step_s))
    times = T0 + (np.arange(count) * (wait_s + step_s) * SECOND).astype(np.int64)
    return steps(rank, times, int(wait_s * SECOND), int(step_s * SECOND), **more)


def test_ratios_and_rates_of_a_steady_run() -> None:
    found = _summary(envelope(60, tables={"steps": _steady(0.04, 0.06)}, spans=[span(0, END, steps=600)]))
    assert found["data_wait_ratio"] == pytest.approx(0.4, abs=0.005)
    assert found["compute_duty_ratio"] == pytest.approx(0.6, abs=0.005)
    assert found["goodput_ratio"] == pytest.approx(0.6, abs=0.005)
    assert found["steps_per_s"] == pytest.approx(10, rel=0.02)
    assert (found["steps"], found["world_size"]) == (600, 1)
    assert found["lost_s"] == pytest.approx(24, abs=0.1)
    assert found["gpu_utilization_ratio"] is None
    assert found["gpu_starved_ratio"] is None
    row = found["ranks"][0]
    assert row["wait_s"] == pytest.approx(0.04)
    assert row["step_s"] == pytest.approx(0.06)
    assert (row["phase"], row["phase_age_s"], row["gpu"], row["ready_batches"]) == ("step", 0.0, None, None)
    assert found["verdict"]["title"]


def test_the_time_lost_holds_the_open_wait_and_is_no_less_than_the_costliest_finding() -> None:
    rows = steps(0, T0 + np.arange(10) * SECOND, SECOND // 100, SECOND // 2)
    hang = envelope(60, tables={"steps": rows}, spans=[span(0, END - 46 * SECOND, phase="wait", loader=0)])
    assert _summary(hang)["lost_s"] == pytest.approx(46.1)
    assert _summary(hang, costs_s=[3.0, None, 80.0])["lost_s"] == 80.0
    step = envelope(60, tables={"steps": rows}, spans=[span(0, END - 46 * SECOND)])
    assert _summary(step, costs_s=[None])["lost_s"] == pytest.approx(0.1)
    over = envelope(
        60,
        processes=[process(0, 1, state="finished")],
        spans=[span(0, END - 46 * SECOND, phase="wait", loader=0, alive=False)],
    )
    assert _summary(over)["lost_s"] == 0.0


def test_a_wait_in_progress_counts() -> None:
    since = END - 15 * SECOND
    times = T0 + np.arange(450) * SECOND // 10
    rows = steps(0, times, 0, SECOND // 10)
    found = _summary(envelope(60, tables={"steps": rows}, spans=[span(0, since, phase="wait", loader=0)]))
    assert found["data_wait_ratio"] == pytest.approx(0.5, abs=0.01)
    assert found["ranks"][0]["phase_age_s"] == 15.0
    validating = _summary(
        envelope(60, tables={"steps": rows}, spans=[span(0, since, phase="wait", loader=1)])
    )
    assert validating["data_wait_ratio"] == 0.0


def test_a_wait_longer_than_the_stretch_is_all_there_is() -> None:
    rows = steps(0, [END - 50 * SECOND], 50 * SECOND, 0)
    assert _summary(envelope(60, tables={"steps": rows}))["data_wait_ratio"] == 1.0


def test_before_the_first_batch_nothing_is_known() -> None:
    found = _summary(envelope(60))
    assert found["data_wait_ratio"] is None
    assert found["steps_per_s"] is None
    assert found["verdict"]["title"].startswith("Warming up")
    assert found["ranks"][0]["phase"] is None


def test_gpu_numbers_come_with_the_gpu() -> None:
    times = END - np.arange(10)[::-1] * SECOND
    gpus = table("gpus", rank=0, gpu=3, t_ns=times, utilization_ratio=[0.0, 1.0] * 5)
    waits = table(
        "gpu_waits", rank=0, loader=0, request_ns=times, starved_ns=SECOND // 4, gpu_step_ns=3 * SECOND // 4
    )
    info = GpuInfo(gpu=3, uuid="GPU-x", name="H200", rank=0, simulated=True)
    rows = steps(0, times - SECOND, SECOND // 2, SECOND // 2)
    waits["request_ns"] = rows["request_ns"]
    found = _summary(envelope(60, gpus=[info], tables={"gpus": gpus, "gpu_waits": waits, "steps": rows}))
    assert found["gpu_utilization_ratio"] == 0.5
    assert found["gpu_starved_ratio"] == found["data_wait_ratio"] == 0.25
    assert found["simulated_gpu"] is True
    assert found["ranks"][0]["gpu"] == 3


def test_what_the_gpu_lacks_in_an_evaluation_is_no_part_of_the_trainings() -> None:
    times = T0 + np.arange(60) * SECOND
    waits = table(
        "gpu_waits",
        rank=0,
        loader=np.arange(60) % 2,  # 0 trains, 1 evaluates
        request_ns=times,
        starved_ns=np.where(np.arange(60) % 2, SECOND, SECOND // 10),
        gpu_step_ns=9 * SECOND // 10,
    )
    rows = steps(0, times, SECOND // 2, SECOND // 2, loader=np.arange(60) % 2)
    found = _summary(envelope(60, tables={"gpu_waits": waits, "steps": rows}))
    assert found["gpu_starved_ratio"] == found["data_wait_ratio"] == pytest.approx(0.1)


def test_the_gpus_of_ranks_in_step_starve_as_long_as_the_run_waits() -> None:
    """One of eight starves for 60 % of each iteration, and the others wait for it."""
    ranks = [RankBuilder(number, 8) for number in range(8)]
    for rank in ranks:
        for _ in range(200):
            began_ns, starved_s = rank.now_ns, 0.09 if rank.rank == 3 else 0.001
            rank.step(0.1 if rank.rank == 3 else 0.001, 0.05 if rank.rank == 3 else 0.149)
            rank.add(
                "gpu_waits",
                loader=0,
                request_ns=began_ns,
                starved_ns=int(starved_s * SECOND),
                gpu_step_ns=int((0.15 - starved_s) * SECOND),
            )
    found = summary_of(RunEvidence(run(*ranks)), RunTotals({}, {}, {}, {}, {}, {}, 0), state="live")
    assert found.clock == "device"
    assert found.gpu_starved_ratio == found.data_wait_ratio == pytest.approx(0.6, abs=0.01)


def test_ranks_are_told_apart() -> None:
    builder = [
        envelope(60, processes=[process(0, 2)], tables={"steps": _steady(0.0, 0.1)}),
        envelope(60, stream="b", host="b", processes=[process(1, 2)], tables={"steps": _steady(0.1, 0.1, 1)}),
        envelope(80, stream="b", host="b", processes=[process(1, 2)]),
    ]
    found = _summary(*builder)
    assert [r["data_wait_ratio"] for r in found["ranks"]] == [0.0, pytest.approx(0.5, abs=0.01)]
    assert [r["state"] for r in found["ranks"]] == ["lost", "live"]
    assert found["world_size"] == 2


def test_a_rank_whose_hooks_stepped_aside_is_not_watched() -> None:
    found = _summary(
        envelope(60, processes=[process(0, 2), process(1, 2, faults=5, tripped=True)], spans=[span(0, END)])
    )
    assert [row["watched"] for row in found["ranks"]] == [True, False]


def test_how_far_the_framework_is() -> None:
    """Its global step advances with our count in training; the lowest reporting rank speaks for the run."""

    def found(stage: str | None, **facts: Any) -> Any:
        told = Progress(framework="F", framework_version="2", stage=stage, at_steps=30, **facts)
        processes = [process(0, 2), process(1, 2, progress=told)]
        at = END
        return _summary(envelope(60, processes=processes, spans=[span(0, at), span(1, at, steps=37)]))[
            "progress"
        ]

    assert found("train", epoch=1, max_epochs=3, global_step=100) == {
        "framework": "F",
        "version": "2",
        "stage": "train",
        "epoch": 1,
        "max_epochs": 3,
        "global_step": 107,
    }
    assert found("validate", global_step=100)["global_step"] == 100
    assert found(None)["global_step"] is None
    assert _summary(envelope(60, processes=[process(0)], spans=[span(0, END)]))["progress"] is None


def test_why_phases_are_missing() -> None:
    found = _summary(envelope(60, processes=[process(0, 2, phases_missing="model"), process(1, 2)]))
    assert [row["phases_missing"] for row in found["ranks"]] == ["model", None]


@pytest.mark.parametrize(
    ("state", "age_s", "expected"), [("live", 3, "live"), ("live", 60, "lost"), ("crashed", 60, "crashed")]
)
def test_a_silent_run_is_lost(state: ProcessState, age_s: int, expected: str) -> None:
    run = StoredRun(
        run_id="r", name="", started_ns=0, last_seen_ns=0, received_ns=T0, world_size=1, state=state
    )
    assert state_now(run, T0 + age_s * SECOND) == expected


def test_of_ranks_in_step_the_one_that_all_wait_for_counts() -> None:
    """One of eight waits 100 of every 150 ms for its batch, the others as long for its gradients."""
    ranks = [RankBuilder(number, 8) for number in range(8)]
    for _ in range(200):
        for rank in ranks:
            rank.step(*((0.100, 0.050) if rank.rank == 3 else (0.001, 0.149)))
    totals = RunTotals(
        steps={}, eval_batches={}, epochs={}, lost_records=0,
        wait_s={number: 20.0 if number == 3 else 0.2 for number in range(8)},
        step_s={number: 10.0 if number == 3 else 29.8 for number in range(8)},
        boundary_s=dict.fromkeys(range(8), 0.0), batches=dict.fromkeys(range(8), 200),
    )  # fmt: skip
    found = summary_of(RunEvidence(run(*ranks)), totals, state="live")
    assert found.data_wait_ratio == pytest.approx(2 / 3, abs=0.01)
    assert found.compute_duty_ratio == pytest.approx(1 / 3, abs=0.01)
    assert found.goodput_ratio is not None
    assert found.goodput_ratio < 0.36
    assert found.lost_s == pytest.approx(20.0)
    assert [round(row.data_wait_ratio or 0, 2) for row in found.ranks] == [
        0.67 if number == 3 else 0.01 for number in range(8)
    ]


def test_a_wait_that_goes_on_counts_for_ranks_in_step() -> None:
    """Rank 3 lacks its batch for 20 s, and the others wait in backward: the tile must not stay green."""
    ranks = [RankBuilder(number, 8) for number in range(8)]
    for rank in ranks:
        for _ in range(300):
            rank.step(0.001, 0.049)
        rank.open("wait" if rank.rank == 3 else "backward", 20.0)
    found = summary_of(RunEvidence(run(*ranks)), RunTotals({}, {}, {}, {}, {}, {}, 0), state="live")
    assert found.data_wait_ratio == pytest.approx(found.ranks[3].data_wait_ratio, abs=0.01)
    assert (found.data_wait_ratio or 0) > 0.6
    assert found.goodput_ratio == pytest.approx(found.compute_duty_ratio, abs=0.02)


def test_ranks_that_do_not_go_in_step_are_averaged() -> None:
    slow, quick = RankBuilder(0, 2), RankBuilder(1, 2)
    for _ in range(200):
        slow.step(0.100, 0.050)
    for _ in range(400):
        quick.step(0.001, 0.074)
    found = summary_of(RunEvidence(run(slow, quick)), RunTotals({}, {}, {}, {}, {}, {}, 0), state="live")
    assert found.data_wait_ratio == pytest.approx((2 / 3 + 0.013) / 2, abs=0.02)
