"""A streamer that dies: the other goes on where it was, and every record arrives exactly once."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.fakes.receiver import Receiver
from tests.fakes.streaming import Streaming, wait_for
from tests.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc"),
]


def test_records_arrive_exactly_once_over_three_deaths(data_dir: Path) -> None:
    """SIGKILL of the active streamer, under load, again and again."""
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        trainee = it.write(period_s=0.001, workers=1)
        it.stream()
        receiver.wait_for(lambda: receiver.envelopes)
        it.stream()
        for round_number in range(3):
            # The active one respawns a standby within some seconds; the first is started here to save them.
            wait_for(lambda: len(it.streamer_pids()) == 2)
            count = len(receiver.envelopes)
            active = _active(it)
            time.sleep(0.13 * round_number)  # at different points of the tick
            os.kill(active, signal.SIGKILL)
            receiver.wait_for(
                lambda count=count: len(receiver.envelopes) > count + 2,  # type: ignore[misc]
                30,
            )
            if round_number < 2:
                it.stream()
        os.kill(trainee.pid, signal.SIGKILL)
        trainee.wait(PATIENCE_S)
        wait_for(lambda: not it.streamer_pids())
        streams = {stream for stream, _ in receiver.envelopes}
        assert len(streams) == 1
        seqs = [seq for _, seq in sorted(receiver.envelopes)]
        assert seqs == list(range(1, len(seqs) + 1))
        batches = receiver.column("steps", "batch")
        assert len(batches) > 500
        assert batches == list(range(len(batches)))
        assert receiver.lost("ring") == receiver.lost("torn") == receiver.lost("outbox") == 0


def test_the_active_streamer_brings_a_standby(data_dir: Path) -> None:
    """A single-process job starts one streamer; it sees to the second itself, and never to more."""
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        it.write(period_s=0.02)
        it.stream()
        wait_for(lambda: len(it.streamer_pids()) == 2)
        time.sleep(6)
        assert len(it.streamer_pids()) == 2


def _active(it: Streaming) -> int:
    """Who holds the lock, as the kernel says."""
    inode = (it.folder / "streamer.lock").stat().st_ino
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if "->" not in fields and fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
                return int(fields[4])
        time.sleep(0.05)
    raise AssertionError("nobody holds the lock")
