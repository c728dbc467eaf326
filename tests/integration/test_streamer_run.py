"""The streamer from a real process's ring to a real HTTP receiver."""

from __future__ import annotations

import os
import signal
import time
from array import array
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from loaderwatch.core.records import UNKNOWN
from tests.fakes.receiver import Receiver
from tests.fakes.streaming import Streaming, wait_for
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc")


def test_a_killed_process_is_drained_to_its_last_record(data_dir: Path) -> None:
    """SIGKILL leaves the ring; the streamer sends it whole, says crashed, and cleans up."""
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        trainee = it.write(period_s=0.004, workers=2)
        streamer = it.stream()
        receiver.wait_for(lambda: len(receiver.column("steps", "batch")) > 100)
        os.kill(trainee.pid, signal.SIGKILL)
        trainee.wait(PATIENCE_S)
        assert streamer.wait(PATIENCE_S) == 0
        batches = receiver.column("steps", "batch")
        assert batches == list(range(len(batches)))
        last = receiver.in_order()[-1]
        assert last.final
        assert [process.state for process in last.processes] == ["crashed"]
        span = last.spans[0]
        # The span is published after the record: at most the record of the step in progress is not there.
        assert span.batch is not None
        assert batches[-1] in (span.batch, span.batch + 1)
        assert not span.alive
        assert [envelope.seq for envelope in receiver.in_order()] == list(range(1, last.seq + 1))
        assert not it.folder.exists()
        assert not list(it.settings.outbox_dir.rglob("*.lwe"))
        assert set(receiver.tokens) == {"Bearer a-secret-for-tests"}


def test_a_goodbye_means_finished_and_stamps_are_utc(data_dir: Path, tmp_path: Path) -> None:
    """RingStatus.finished tells the two ends apart."""
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        before = time.time_ns()
        end = tmp_path / "end"
        trainee = it.write(period_s=0.02, finish=True, until=str(end))
        streamer = it.stream()
        receiver.wait_for(lambda: receiver.envelopes)  # what a process may use is read while it lives
        end.touch()
        assert streamer.wait(PATIENCE_S) == 0
        trainee.wait(PATIENCE_S)
        envelopes = receiver.in_order()
        assert envelopes[-1].processes[0].state == "finished"
        stamps = receiver.column("steps", "request_ns")
        assert receiver.column("steps", "batch") == list(range(len(stamps)))
        assert before - 10**9 < stamps[0] < stamps[-1] < time.time_ns() + 10**9
        assert envelopes[0].host.gpu_status.startswith("no NVIDIA driver")
        assert envelopes[0].host.usable_cpus is not None


def test_newcomers_are_picked_up_and_samples_come_every_second(data_dir: Path) -> None:
    """A second rank that starts later is on the wire soon; host and process rows flow."""
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        it.write(rank=0, period_s=0.02, workers=1)
        it.stream()
        receiver.wait_for(lambda: receiver.envelopes)
        it.write(rank=1, period_s=0.02)
        before = len(receiver.envelopes)
        receiver.wait_for(lambda: 1 in receiver.column("steps", "rank"))
        carriers = [
            e.seq for e in receiver.in_order() if 1 in array("q", e.tables.get("steps", {}).get("rank", b""))
        ]
        assert carriers[0] <= before + 8, "it is looked for between any two envelopes or so"
        receiver.wait_for(lambda: len(receiver.column("hosts", "t_ns")) >= 3)
        states = receiver.column("processes", "state")
        assert UNKNOWN not in states
        assert {chr(state) for state in states} <= set("RSD")
        last = receiver.in_order()[-1]
        assert sorted((s.rank, s.worker) for s in last.spans if s.alive) == [
            (0, -1),
            (1, -1),
        ]  # its worker never wrote
        assert {s.os_state for s in last.spans} <= {"R", "S", "D", None}


def test_the_page_address_and_notices_go_to_the_jobs_stderr_once(data_dir: Path, tmp_path: Path) -> None:
    """Rank 0 hears where the page is; what the server wants said is said, without control characters."""
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        end = tmp_path / "end"
        trainee = it.write(period_s=0.02, finish=True, until=str(end))
        it.stream()
        receiver.wait_for(lambda: len(receiver.envelopes) > 2)
        receiver.extra = {"notices": [{"rank": 0, "text": "alert: input-bound \u001b[31mred"}]}
        assert trainee.stderr is not None
        told = [trainee.stderr.readline().rstrip(), trainee.stderr.readline().rstrip()]
        end.touch()
        assert trainee.wait(PATIENCE_S) == 0
        told += trainee.stderr.read().splitlines()  # ends, so nobody else holds the pipe
        assert told == [
            f"loaderwatch: watching train.py — open {receiver.url}",
            "alert: input-bound [31mred",
        ]


def test_a_rank_that_dies_is_seen_while_the_other_goes_on(data_dir: Path) -> None:
    """One rank crashed, the run lives."""
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        it.write(period_s=0.02)
        victim = it.write(rank=9, period_s=0.02)
        it.stream()
        receiver.wait_for(lambda: 9 in receiver.column("steps", "rank"))
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait(PATIENCE_S)
        receiver.wait_for(
            lambda: {p.rank: p.state for p in receiver.in_order()[-1].processes} == {0: "live", 9: "crashed"}
        )
        batches = [
            batch
            for rank, batch in zip(
                receiver.column("steps", "rank"), receiver.column("steps", "batch"), strict=True
            )
            if rank == 9
        ]
        assert batches == list(range(len(batches)))


def test_a_streamer_nobody_needs_ends(data_dir: Path) -> None:
    """One active, one standby; a third is not needed, and both end with the run."""
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        trainee = it.write(period_s=0.02)
        it.stream()
        receiver.wait_for(lambda: receiver.envelopes)
        second = it.stream()
        wait_for(lambda: "standing by" in it.log())
        assert it.stream().wait(PATIENCE_S) == 0
        assert len(it.streamer_pids()) == 2
        os.kill(trainee.pid, signal.SIGKILL)
        trainee.wait(PATIENCE_S)
        assert second.wait(PATIENCE_S) == 0
        wait_for(lambda: not it.streamer_pids())
        assert not it.folder.exists()


def test_envelopes_come_as_often_as_a_receipt_says(data_dir: Path) -> None:
    """And no record is missing: each envelope has what came since the one before."""
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        it.write(period_s=0.02)
        it.stream()
        receiver.wait_for(lambda: receiver.envelopes)

        def apart_s(said_s: float) -> float:
            receiver.extra = {"envelope_s": said_s}  # with each receipt
            newest = receiver.in_order()[-2:]
            return (newest[-1].made_ns - newest[0].made_ns) / 1e9

        receiver.wait_for(lambda: apart_s(2.0) >= 1.9)
        receiver.wait_for(lambda: apart_s(1000.0) >= 4.9)  # a server that errs: no host falls silent for that
        batches = receiver.column("steps", "batch")
        assert batches == list(range(len(batches)))
        looked_ns = sorted(set(receiver.column("processes", "t_ns")))
        gaps_s = [(later - earlier) / 1e9 for earlier, later in pairwise(looked_ns)]
        assert median(gaps_s) < 1.5, "processes are looked at every second all the same: a hole is a pause"
