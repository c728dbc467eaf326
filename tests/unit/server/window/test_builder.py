from __future__ import annotations

import numpy as np
import pytest

from loaderwatch.core.facts import GpuInfo, Loss, StackDump
from loaderwatch.core.records import TABLES, UNKNOWN
from loaderwatch.core.wire import Envelope
from loaderwatch.detect.window import WINDOW_S
from loaderwatch.server.window.builder import WindowBuilder
from loaderwatch.server.window.row_buffer import LAYOUTS, RowBuffer, block_of_arrays
from tests.fakes.runs import SECOND, T0, envelope, joined, process, span, steps, table


def test_rows_go_to_their_rank() -> None:
    builder = WindowBuilder("run-1")
    times = T0 + np.arange(3) * SECOND // 10
    rows = joined([steps(1, times, [1, 2, 3], [10, 20, 30]), steps(0, times[:2], [4, 5], [40, 50])])
    gpus = table(
        "gpus", rank=[0, 1, UNKNOWN], gpu=[0, 1, 2], t_ns=[T0, T0, T0], utilization_ratio=[0.1, 0.2, 0.9]
    )
    builder.add(envelope(1, processes=[process(0, 2), process(1, 2)], tables={"steps": rows, "gpus": gpus}))
    window = builder.window()
    assert window.ranks[0].table("steps")["wait_ns"].tolist() == [4, 5]
    assert window.ranks[1].table("steps")["wait_ns"].tolist() == [1, 2, 3]
    assert window.ranks[1].table("gpus")["utilization_ratio"].tolist() == [0.2]
    assert len(window.ranks[0].table("fetches")["rank"]) == 0
    for name, columns in TABLES.items():
        assert set(window.ranks[0].table(name)) == {c.name for c in columns}


def test_a_window_does_not_change_afterwards() -> None:
    builder = WindowBuilder("run-1")
    builder.add(envelope(1, tables={"steps": steps(0, [T0], [1], [2])}, spans=[span(0, T0)]))
    window = builder.window()
    builder.add(
        envelope(2, tables={"steps": steps(0, [T0 + SECOND], [3], [4])}, spans=[span(0, T0 + SECOND)])
    )
    assert window.ranks[0].table("steps")["wait_ns"].tolist() == [1]
    assert window.ranks[0].span == span(0, T0)
    assert builder.window().ranks[0].table("steps")["wait_ns"].tolist() == [1, 3]


def test_the_same_envelope_counts_once() -> None:
    builder = WindowBuilder("run-1")
    for _ in range(2):
        builder.add(envelope(1, tables={"steps": steps(0, [T0], [1], [2])}))
    assert builder.totals().steps == {0: 1}
    assert len(builder.window().ranks[0].table("steps")["step"]) == 1


def test_rows_leave_with_time_but_epochs_stay() -> None:
    builder = WindowBuilder("run-1")
    begins = table("epoch_begins", rank=[0], loader=0, epoch=0, request_ns=[T0], iter_ns=7)
    builder.add(envelope(1, tables={"steps": steps(0, [T0], [1], [2]), "epoch_begins": begins}))
    later = T0 + int(WINDOW_S + 5) * SECOND
    builder.add(envelope(2, made_ns=later, tables={"steps": steps(0, [later], [3], [4])}))
    rank = builder.window().ranks[0]
    assert rank.table("steps")["wait_ns"].tolist() == [3]
    assert rank.table("epoch_begins")["epoch"].tolist() == [0]
    assert builder.window().span_s == WINDOW_S
    assert builder.totals().steps == {0: 2}  # totals never forget


def test_what_is_usual_is_not_forgotten_because_nothing_happens() -> None:
    """The limit of a hang is learned from steps, and a hang has none."""
    builder = WindowBuilder("run-1")
    times = T0 + np.arange(50) * SECOND
    builder.add(envelope(1, made_ns=int(times[-1]), tables={"steps": steps(0, times, 7, 2)}))
    for minutes in (1, 30):
        made_ns = int(times[-1]) + minutes * 60 * SECOND
        builder.add(envelope(1 + minutes, made_ns=made_ns, tables={}))
        rank = builder.window().ranks[0]
        assert rank.past("steps")["request_ns"].tolist() == times.tolist()
    assert not rank.table("steps")["request_ns"].size
    assert not rank.past("fetches")["request_ns"].size
    later = made_ns + SECOND
    builder.add(envelope(99, made_ns=later, tables={"steps": steps(0, [later], [1], [2])}))
    assert builder.window().ranks[0].past("steps")["request_ns"].tolist() == [later]


def test_memory_is_bounded() -> None:
    builder = WindowBuilder("run-1")
    ranks = [process(r, 2048) for r in range(2)]
    for seq in range(1, 8):
        times = T0 + seq * SECOND + np.arange(1000) * 1000
        builder.add(envelope(seq, processes=ranks, tables={"steps": steps(0, times, 1, 2)}))
    assert len(builder.window().ranks[0].table("steps")["step"]) == 1000
    assert builder.totals().steps == {0: 7000, 1: 0}
    assert builder.window().span_s < 6


def test_only_training_counts_in_totals() -> None:
    builder = WindowBuilder("run-1")
    both = joined(
        [
            steps(0, [T0], [1 * SECOND], [2 * SECOND]),
            steps(0, [T0], [5 * SECOND], [5 * SECOND], loader=1),
            steps(0, [T0], [7 * SECOND], [7 * SECOND], off_main_thread=1),
            steps(0, [T0], [UNKNOWN], [UNKNOWN]),
        ]
    )
    begins = table(
        "epoch_begins",
        rank=[0, 0],
        loader=[0, 1],
        epoch=0,
        request_ns=T0,
        iter_ns=SECOND,
        first_wait_ns=SECOND,
    )
    ends = table("epoch_ends", rank=[0], loader=0, epoch=0, request_ns=T0, teardown_ns=2 * SECOND)
    builder.add(
        envelope(
            1,
            tables={"steps": both, "epoch_begins": begins, "epoch_ends": ends},
            losses=[Loss(what="ring", rank=0, count=12, t_ns=T0)],
        )
    )
    totals = builder.totals()
    assert (totals.steps, totals.wait_s, totals.step_s) == ({0: 2}, {0: 1.0}, {0: 2.0})
    assert (totals.epochs, totals.boundary_s) == ({0: 1}, {0: 3.0})
    assert totals.lost_records == 12


@pytest.mark.parametrize(
    ("optimizer_steps", "steps_made"), [([0, 1, 0, 2], 3), ([UNKNOWN] * 4, 4), ([UNKNOWN, 0, UNKNOWN, 0], 2)]
)
def test_steps_are_optimizer_steps_where_one_is_watched(optimizer_steps: list[int], steps_made: int) -> None:
    """Otherwise steps are batches, except batches that the loop took for a step begun with another batch."""
    builder = WindowBuilder("run-1")
    rows = steps(0, T0 + np.arange(4), 1, 1, optimizer_steps=optimizer_steps)
    builder.add(envelope(1, processes=[process(0)], tables={"steps": rows}))
    assert builder.totals().steps == {0: steps_made}


def test_spans_are_those_of_each_hosts_newest_envelope() -> None:
    builder = WindowBuilder("run-1")
    a, b = process(0, 2), process(1, 2)
    builder.add(envelope(1, processes=[a], spans=[span(0, T0), span(0, T0, worker=0, phase="fetch")]))
    builder.add(envelope(1, host="host-b", stream="host-b", processes=[b], spans=[span(1, T0 + 5)]))
    builder.add(envelope(3, processes=[a], spans=[span(0, T0 + SECOND, phase="wait")]))
    builder.add(envelope(2, processes=[a], spans=[span(0, T0 + 1)]))  # late
    window = builder.window()
    assert window.ranks[0].span == span(0, T0 + SECOND, phase="wait")
    assert window.ranks[0].workers == []
    assert window.ranks[1].span == span(1, T0 + 5)
    assert (window.ranks[0].made_ns, window.ranks[1].made_ns) == (T0 + 3 * SECOND, T0 + SECOND)
    assert window.now_ns == T0 + 3 * SECOND


def test_workers_are_remembered_when_they_died_with_their_process() -> None:
    builder = WindowBuilder("run-1")
    died = span(0, T0, worker=1, phase="fetch", sample_index=3210, alive=False)
    builder.add(envelope(1, spans=[span(0, T0), died]))
    builder.add(envelope(2, spans=[span(0, T0, alive=False)], processes=[process(0, state="crashed")]))
    (rank,) = builder.window().ranks.values()
    assert (rank.workers, rank.last_workers) == ([], [died])
    fresh = span(0, T0 + SECOND, worker=0, phase="idle")
    builder.add(envelope(3, spans=[span(0, T0), fresh]))
    assert builder.window().ranks[0].last_workers == [fresh]


def test_a_late_envelope_does_not_wake_the_dead() -> None:
    builder = WindowBuilder("run-1")
    builder.add(envelope(2, processes=[process(0, state="crashed", exit="SIGKILL")]))
    builder.add(envelope(1, processes=[process(0)]))
    assert builder.window().ranks[0].process.state == "crashed"
    assert builder.facts.state == "crashed"
    reborn = process(0, pid=77, started_ns=T0 + 9 * SECOND)
    builder.add(envelope(3, processes=[reborn]))
    assert builder.window().ranks[0].process == reborn
    # What another host had in its outbox from before the restart.
    builder.add(envelope(1, stream="host-b", host="host-b", processes=[process(0)]))
    assert builder.window().ranks[0].process == reborn


def test_the_newest_stack_of_each_process_is_kept() -> None:
    def dump(pid: int, taken_ns: int, text: str) -> StackDump:
        return StackDump(rank=0, worker=-1, pid=pid, taken_ns=taken_ns, text=text)

    builder = WindowBuilder("run-1")
    builder.add(envelope(1, stacks=[dump(1, 5, "old"), dump(2, 5, "other")]))
    builder.add(envelope(2, stacks=[dump(1, 9, "new"), dump(1, 7, "middle")]))
    assert {(s.pid, s.text) for s in builder.window().ranks[0].stacks} == {(1, "new"), (2, "other")}


def test_hosts_and_gpus() -> None:
    builder = WindowBuilder("run-1")
    gpu = GpuInfo(gpu=0, uuid="GPU-1", name="H200", rank=0, simulated=True)
    rows = table("hosts", t_ns=[T0, T0 + SECOND], cpu_ratio=[0.0, float("nan")])
    builder.add(envelope(2, gpus=[gpu], tables={"hosts": rows}))
    host = builder.window().hosts["host-a"]
    assert host.gpus == [gpu]
    assert host.hosts["cpu_ratio"][0] == 0.0
    assert np.isnan(host.hosts["cpu_ratio"][1])
    builder.add(envelope(3))  # an envelope without gpus says nothing about them
    assert builder.window().hosts["host-a"].gpus == [gpu]


def test_an_envelope_that_was_overtaken_says_nothing_of_who_takes_part() -> None:
    builder = WindowBuilder("run-1")
    builder.add(envelope(1, processes=[process(0, 2)]))
    builder.add(envelope(3, processes=[process(0, 2, state="finished")], final=True))
    late = envelope(
        2, processes=[process(0, 2, phase_names=["x"])], tables={"steps": steps(0, [T0], [1], [2])}
    )
    builder.add(late)
    assert builder.facts.state == "finished"
    assert builder.facts.processes[0].phase_names == []
    assert builder.totals().steps == {0: 1}, "its rows count"


def test_a_rank_that_is_restarted_after_the_clock_was_set_back_is_the_new_one() -> None:
    builder = WindowBuilder("run-1")
    builder.add(envelope(1, processes=[process(0, pid=7, started_ns=T0, state="crashed")]))
    builder.add(envelope(2, processes=[process(0, pid=8, started_ns=T0 - 3600 * SECOND)]))
    assert builder.window().ranks[0].process.pid == 8
    assert builder.facts.state == "live"


def test_a_run_that_is_started_again_with_fewer_ranks_has_no_others() -> None:
    builder = WindowBuilder("run-1")
    ended = [process(rank, 4, state="crashed") for rank in range(4)]
    builder.add(envelope(1, processes=ended))
    again = [process(rank, 2, pid=50 + rank, started_ns=T0) for rank in range(2)]
    builder.add(envelope(2, processes=[*again, *ended[2:]]))  # the host goes on telling how they ended
    builder.add(envelope(3, processes=[*again, *ended[2:]]))
    assert sorted(builder.window().ranks) == [0, 1]
    assert (builder.facts.state, builder.facts.world_size) == ("live", 2)


def test_buffers_that_fill_alike_do_not_move_at_once() -> None:
    """With the same slack for all, every rank's rows moved to larger arrays within one look."""
    row = np.zeros((LAYOUTS["steps"].count, 1), dtype=np.int64)
    buffers = [RowBuffer("steps", 10_000) for _ in range(64)]
    moved = {}
    for number in range(1_000):
        before = [buffer._block for buffer in buffers]
        for buffer in buffers:
            buffer.extend(row)
        moved[number] = sum(buffer._block is not was for buffer, was in zip(buffers, before, strict=True))
    assert max(list(moved.values())[200:]) <= 16


def test_envelopes_that_come_together_count_as_one_after_the_other() -> None:
    """Three hosts, one of them twice, out of order. Then its rank restarts, which begins an attempt."""

    def one(host: int, seq: int, began_ns: int = T0 - SECOND) -> Envelope:
        times = T0 + (10 * seq + np.arange(5)) * SECOND // 10
        rows = joined([steps(host + 3 * at, times, [seq, 2, 3, 4, 5], 10 + host) for at in range(2)])
        return envelope(
            seq,
            stream=f"host-{host}",
            host=f"host-{host}",
            made_ns=T0 + seq * SECOND,
            processes=[process(host + 3 * at, 6, started_ns=began_ns) for at in range(2)],
            spans=[span(host, T0 + seq * SECOND, steps=4 * seq)],
            tables={"steps": rows, "hosts": table("hosts", t_ns=[T0 + seq * SECOND], cpu_ratio=[0.5])},
        )

    sent = [
        one(2, 1),
        one(0, 2),
        one(1, 1),
        one(0, 1),
        one(0, 2),
        one(1, 2),
        one(0, 3, T0 + 2 * SECOND),
        one(2, 2),
    ]
    alone, together = WindowBuilder("run-1"), WindowBuilder("run-1")
    for each in sent:
        alone.add(each)
    together.add_all(sent)
    assert together.totals() == alone.totals()
    first, second = alone.window(), together.window()
    assert (
        (first.attempt, sorted(first.ranks))
        == (second.attempt, sorted(second.ranks))
        == (2, [0, 1, 2, 3, 4, 5])
    )
    for number, rank in first.ranks.items():
        other = second.ranks[number]
        assert (rank.span, rank.made_ns, rank.process) == (other.span, other.made_ns, other.process)
        for name in ("steps", "gpus"):
            for column, values in rank.table(name).items():
                np.testing.assert_array_equal(values, other.table(name)[column])
    for name, host in first.hosts.items():
        np.testing.assert_array_equal(host.hosts["t_ns"], second.hosts[name].hosts["t_ns"])


def test_an_envelope_that_fails_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in front count, and those behind are still there to be asked for."""
    builder = WindowBuilder("run-1")
    add_facts = builder.add_facts

    def fails(each: Envelope) -> None:
        if each.seq == 2:
            raise RuntimeError("a fault of ours")
        add_facts(each)

    monkeypatch.setattr(builder, "add_facts", fails)
    rows = [steps(0, [T0 + seq * SECOND], [seq], [9]) for seq in range(1, 5)]
    waiting = iter([envelope(seq, tables={"steps": each}) for seq, each in enumerate(rows, 1)])
    with pytest.raises(RuntimeError, match="a fault of ours"):
        builder.add_all(waiting)
    builder.add_all(waiting)
    assert builder.window().ranks[0].table("steps")["wait_ns"].tolist() == [1, 3, 4]


def test_a_host_whose_rows_come_before_its_first_envelope_has_the_windows_time() -> None:
    """In a replay. Ages and begins would count from 1970 otherwise."""
    builder = WindowBuilder("run-1")
    builder.facts.take(envelope(1, processes=[process(0)]))
    columns = {
        column.name: np.array([T0 if column.name == "t_ns" else 0], dtype=column.dtype)
        for column in TABLES["hosts"]
    }
    builder.add_rows("hosts", block_of_arrays("hosts", columns), "host-a")
    assert builder.window(T0 + SECOND).ranks[0].made_ns == T0 + SECOND
