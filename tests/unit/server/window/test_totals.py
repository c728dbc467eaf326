from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderwatch.core.wire import Envelope
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.server.live.summary import summary_of
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.window import replay
from loaderwatch.server.window.builder import WindowBuilder
from loaderwatch.server.window.totals import MOST_ITERATIONS, Longest
from tests.fakes.runs import SECOND, T0, envelope, joined, process, span, steps, table

MS = SECOND // 1000
SECONDS = 60
ITERATIONS = 10 * SECONDS


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 100)), max_size=40), st.integers(1, 7))
def test_the_sum_of_the_longest_is_the_same_in_whatever_order_they_come(
    rows: list[tuple[int, int]], at_once: int
) -> None:
    longest = Longest()
    expected: dict[int, int] = {}
    for at in range(0, len(rows), at_once):
        keys, durations = np.array(rows[at : at + at_once], dtype=np.int64).T
        longest.take(keys, durations, np.full(keys.size, T0))
    for key, duration in rows:
        expected[key] = max(duration, expected.get(key, 0))
    assert (longest.total_ns, longest.number) == (sum(expected.values()), len(expected))


def test_what_was_forgotten_does_not_count_again() -> None:
    longest, keys = Longest(), np.arange(MOST_ITERATIONS + 2, dtype=np.int64)
    longest.take(keys, np.full(keys.size, 5), T0 + keys)
    longest.take(keys, np.full(keys.size, 5), T0 + keys)
    assert (longest.total_ns, longest.number) == (5.0 * keys.size, keys.size)


def _rows(name: str, rank: int, began: int, ended: int, device: bool) -> dict[str, bytes]:
    """Ten iterations a second. The ranks take turns in waiting 60 ms; their GPUs work for 40 ms of a wait."""
    number = np.arange(began * 10, ended * 10)
    times, late = T0 + number * SECOND // 10, number % 2 == rank
    if name == "steps":
        return steps(
            rank, times, np.where(late, 60, 0) * MS, np.where(late, 40, 100) * MS, batch=number, step=number
        )
    return table(
        "gpu_waits",
        rank=rank, loader=0, epoch=0, batch=number, request_ns=times,
        starved_ns=np.where(late, 20, 0) * MS, gpu_step_ns=np.where(late, 80, 100) * MS,
    )  # fmt: skip


def _in_turns(device: bool = False, boundary_s: float = 0.0) -> list[Envelope]:
    processes, made = [process(0, 2), process(1, 2)], []
    for second in range(SECONDS):
        tables = {}
        for name in ("steps", "gpu_waits") if device else ("steps",):
            tables[name] = joined(
                [_rows(name, rank, second, second + 1, device) for rank in (0, 1)],
            )
        if second % 20 == 19 and boundary_s:
            ends = [
                table(
                    "epoch_ends",
                    rank=[rank], loader=0, epoch=second // 20, request_ns=T0 + second * SECOND,
                    teardown_ns=int(boundary_s * SECOND) if second // 20 % 2 == rank else 0,
                )
                for rank in (0, 1)
            ]  # fmt: skip
            tables["epoch_ends"] = joined(ends)
        spans = [span(rank, T0 + (second + 1) * SECOND, steps=10 * (second + 1)) for rank in (0, 1)]
        made.append(envelope(second + 1, processes=processes, tables=tables, spans=spans))
    return made


def _lost_s(builder: WindowBuilder) -> float:
    return summary_of(RunEvidence(builder.window()), builder.totals(), state="live").lost_s or 0.0


@pytest.mark.parametrize(("device", "each_s"), [(False, 0.06), (True, 0.02)])
def test_ranks_that_are_late_in_turns_lose_what_both_of_them_wait(device: bool, each_s: float) -> None:
    """Each waits in every other iteration, and the other one waits for it: the run waits in all of them."""
    builder = WindowBuilder("run-1")
    for one in _in_turns(device, boundary_s=0.2):
        builder.add(one)
    assert _lost_s(builder) == pytest.approx(ITERATIONS * each_s + 3 * 0.2, rel=0.001)
    clock = summary_of(RunEvidence(builder.window()), builder.totals(), state="live").lost_clock
    assert clock == ("device" if device else "loop")


@pytest.mark.parametrize("device", [False, True])
def test_a_restarted_server_goes_on_with_the_time_lost(tmp_path: Path, device: bool) -> None:
    envelopes = _in_turns(device, boundary_s=0.2)
    store, live = DuckDBStore(tmp_path), WindowBuilder("run-1")
    for one in envelopes[:40]:
        live.add(one)
    store.append(envelopes[:40])
    rebuilt = replay.rebuild(store, "run-1")
    assert rebuilt.totals() == live.totals()
    for one in envelopes[35:]:  # some come again
        live.add(one)
        rebuilt.add(one)
    assert rebuilt.totals() == live.totals()
    assert _lost_s(rebuilt) == pytest.approx(_lost_s(live))
    store.close()


def test_ranks_that_count_their_loaders_differently_are_not_added_up() -> None:
    """One rank has a loader more, so their iterations do not match. The worse rank gives the loss."""
    builder = WindowBuilder("run-1")
    for rank in (0, 1):
        rows = steps(rank, T0 + np.arange(100) * SECOND // 10, 50 * MS, 50 * MS, loader=2 * rank)
        builder.add(envelope(rank + 10, processes=[process(0, 2), process(1, 2)], tables={"steps": rows}))
    assert _lost_s(builder) == pytest.approx(5.0)
