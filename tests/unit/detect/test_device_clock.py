"""Steps by the device's clock: an iteration takes as long as before, and its wait is what the GPU lacked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderwatch.core.records import TABLES, UNKNOWN
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.device_clock import by_device, hidden_of
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.measures.time_use import open_wait_s
from tests.unit.detect.build import RankBuilder, run

MS = 1_000_000
Table = dict[str, np.ndarray[Any, np.dtype[np.int64]]]


def table(name: str, rows: int, **columns: Any) -> Table:
    made = {c.name: np.full(rows, UNKNOWN, dtype=np.int64) for c in TABLES[name]}
    return made | {
        name: np.broadcast_to(np.asarray(v, dtype=np.int64), (rows,)) for name, v in columns.items()
    }


def steps(waits_ms: list[int], step_ms: int = 3, **columns: Any) -> Table:
    wait_ns = np.array(waits_ms, dtype=np.int64) * MS
    request_ns = np.concatenate(([0], np.cumsum(wait_ns + step_ms * MS)))[:-1] + 10**18
    base: dict[str, Any] = {"loader": 0, "wait_cpu_ns": MS, "step_ns": step_ms * MS, "nested_ns": 0}
    return table("steps", len(waits_ms), request_ns=request_ns, wait_ns=wait_ns, **(base | columns))


def events(of: Table, starved_ms: list[int], rows: slice = slice(None), **columns: Any) -> Table:
    request_ns = of["request_ns"][rows]
    starved_ns = np.array(starved_ms, dtype=np.int64)[rows] * MS
    base: dict[str, Any] = {"loader": 0, "gpu_step_ns": 90 * MS}
    return table(
        "gpu_waits", request_ns.size, request_ns=request_ns, starved_ns=starved_ns, **(base | columns)
    )


def sums(of: Any) -> tuple[int, int]:
    return int(of["wait_ns"].sum()), int((of["wait_ns"] + of["step_ns"]).sum())


def test_a_wait_in_which_the_gpu_works_on_is_no_loss() -> None:
    recorded = steps([92] * 10)
    found = by_device(recorded, events(recorded, [5] * 10))
    assert found["wait_ns"].tolist() == [5 * MS] * 10
    assert found["step_ns"].tolist() == [90 * MS] * 10
    assert hidden_of(found).tolist() == [87 * MS] * 10
    assert recorded["wait_ns"].tolist() == [92 * MS] * 10


def test_without_events_the_loops_clock_counts() -> None:
    recorded = steps([92] * 10)
    assert by_device(recorded, events(recorded, [], slice(0))) is recorded
    assert by_device(recorded, events(recorded, [5] * 10, loader=1)) is recorded
    assert by_device(recorded, events(recorded, [5] * 10) | {"starved_ns": np.full(10, UNKNOWN)}) is recorded
    assert hidden_of(recorded).tolist() == [UNKNOWN] * 10


def test_batches_that_no_event_tells_of_are_like_the_others() -> None:
    recorded = steps([90] * 8)
    found = by_device(recorded, events(recorded, [30] * 8, slice(6)))
    assert found["wait_ns"].tolist() == [30 * MS] * 8


def test_batches_before_the_device_was_used_are_by_the_loops_clock() -> None:
    recorded = steps([90] * 8)
    found = by_device(recorded, events(recorded, [30] * 8, slice(4, None)))
    assert found["wait_ns"].tolist() == [90 * MS] * 4 + [30 * MS] * 4


def test_events_of_too_few_batches_are_not_used() -> None:
    recorded = steps([90] * 8)
    assert by_device(recorded, events(recorded, [30] * 8, slice(3))) is recorded


@pytest.mark.parametrize("starved_ms", [200, 90])
def test_the_gpu_cannot_lack_more_than_the_loop_waited(starved_ms: int) -> None:
    recorded = steps([90] * 8)
    assert sums(by_device(recorded, events(recorded, [starved_ms] * 8))) == sums(recorded)


@given(
    waits_ms=st.lists(st.integers(0, 500), min_size=1, max_size=40),
    starved_ms=st.lists(st.integers(0, 500), min_size=40, max_size=40),
    known=st.integers(0, 40),
    last_open=st.booleans(),
)
def test_time_is_neither_made_nor_lost(
    waits_ms: list[int], starved_ms: list[int], known: int, last_open: bool
) -> None:
    recorded = steps(waits_ms)
    if last_open:
        recorded["step_ns"] = np.append(recorded["step_ns"][:-1], UNKNOWN)
    starved_ms = starved_ms[: len(waits_ms)]
    found = by_device(recorded, events(recorded, starved_ms, slice(known)))
    whole = slice(None, -1 if last_open else None)
    assert (found["wait_ns"] + found["step_ns"])[whole].tolist() == (
        recorded["wait_ns"] + recorded["step_ns"]
    )[whole].tolist()
    assert (found["wait_ns"] >= 0).all()
    assert (found["wait_ns"] <= recorded["wait_ns"]).all()
    assert (found["step_ns"] == UNKNOWN).tolist() == (recorded["step_ns"] == UNKNOWN).tolist()


def test_an_open_wait_is_lost_from_when_the_gpu_is_through() -> None:
    rank = RankBuilder()
    for _ in range(100):
        began_ns = rank.now_ns
        rank.step(0.092, 0.003)
        rank.add("gpu_waits", loader=0, request_ns=began_ns, starved_ns=5 * MS, gpu_step_ns=90 * MS)
    rank.open("wait", 0.05)
    assert open_wait_s(run(rank).ranks[0]) == 0.0
    rank.open("wait", 1.0)
    assert open_wait_s(run(rank).ranks[0]) == pytest.approx(1.0 - 0.087, abs=0.001)


def test_the_loops_own_wait_is_evidence_where_the_gpu_hides_most_of_it() -> None:
    rank = RankBuilder()
    for number in range(200):
        began_ns = rank.now_ns
        rank.fetch(number % 2, 0.24).step(0.118, 0.002)
        rank.add("gpu_waits", loader=0, request_ns=began_ns, starved_ns=30 * MS, gpu_step_ns=90 * MS)
    (finding,) = detect(RunEvidence(run(rank)))
    assert finding.code == "input-bound"
    evidence = {item.label: item.value for item in finding.evidence}
    assert evidence["data wait"] == pytest.approx(0.25, abs=0.01)
    assert evidence["wait of the loop, mostly hidden by the GPU's work"] == pytest.approx(0.118, abs=0.001)
    assert evidence["step without the wait"] == pytest.approx(0.09, abs=0.001)
