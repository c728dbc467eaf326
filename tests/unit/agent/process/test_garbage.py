"""Pauses of the garbage collector, recorded while they happen for real."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from loaderwatch.agent import hot
from loaderwatch.agent.process import garbage
from loaderwatch.agent.process.garbage import watch_collections
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.records import RECORD_FIELDS, RecordKind
from loaderwatch.core.ring import RingIdentity, RingReader, RingWriter

NUMBERS = TensorDataset(torch.arange(2))


def collections(path: Path) -> list[dict[str, int]]:
    """What the ring holds."""
    reader = RingReader(path)
    rows = reader.drain(0).records.get(RecordKind.COLLECTION, [])
    reader.close()
    return [dict(zip(RECORD_FIELDS[RecordKind.COLLECTION], row, strict=True)) for row in rows]


@pytest.mark.parametrize("how", ["as chosen", "in Python"])
def test_a_long_pause_is_recorded_and_a_short_one_is_not(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "in Python":
        monkeypatch.setattr(garbage, "TimedCollections", hot.in_python.TimedCollections)
    ring = RingWriter(tmp_path / "a.ring", RingIdentity(1, 1, -1, -1, 0), 64)
    before = len(gc.callbacks)
    stop = watch_collections(ring, 3)
    heap = [[number] for number in range(300_000)]
    began = monotonic_ns()
    gc.collect()
    ended = monotonic_ns()
    (long,) = [row for row in collections(tmp_path / "a.ring") if row["request_ns"] >= began]
    assert (long["worker"], long["generation"]) == (3, 2)
    assert 1_000_000 <= long["duration_ns"] <= ended - began
    gc.collect(0)  # nothing young is left
    assert len([row for row in collections(tmp_path / "a.ring") if row["request_ns"] >= ended]) == 0
    stop()
    stop()
    assert len(gc.callbacks) == before
    gc.collect()
    assert collections(tmp_path / "a.ring")[-1] == long
    del heap
    ring.close()


AT_THE_END = """
import atexit
import builtins
from pathlib import Path
from loaderwatch.agent import guard
from loaderwatch.agent.process import garbage
from loaderwatch.core.ring import RingIdentity, RingWriter

garbage.watch_collections(RingWriter(Path({path!r}), RingIdentity(1, 1, -1, -1, 0), 64), -1)
heap = [[number] for number in range(300_000)]  # Python walks it once more as it ends

@atexit.register
def clear(modules=(guard, garbage)):  # what the end of Python does to one module after the other
    guard.guard = garbage.gc = None

class Last:
    def __del__(self):
        for _ in range(1000):
            pass  # the last code of Python's that runs, in which what is on its way comes

builtins.last = Last()
"""


def test_a_collection_as_python_ends_is_nobodys_error(tmp_path: Path) -> None:
    script = AT_THE_END.format(path=str(tmp_path / "a.ring"))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def collect_and_wait() -> None:
    """Collect a million lists, which takes longer than an alarm does, and wait for its signal."""
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    gc.collect()
    time.sleep(60)


@pytest.mark.skipif(hot.TimedCollections is hot.in_python.TimedCollections, reason="nothing was compiled")
def test_an_interrupt_during_a_collection_reaches_the_script(tmp_path: Path) -> None:
    """Python prints and drops what a callback of the collector raises."""
    others = gc.callbacks[:]  # hypothesis has one in Python, which would lose it
    gc.callbacks.clear()
    ring = RingWriter(tmp_path / "a.ring", RingIdentity(1, 1, -1, -1, 0), 64)
    heap = [[number] for number in range(1_000_000)]
    stop = watch_collections(ring, -1)
    was = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        began = monotonic_ns()
        with pytest.raises(KeyboardInterrupt):
            collect_and_wait()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, was)
        gc.collect()
        stop()
        gc.callbacks.extend(others)
    assert len([row for row in collections(tmp_path / "a.ring") if row["request_ns"] > began]) >= 2, (
        "and no pause is lost"
    )
    del heap
    ring.close()


def test_what_ended_while_a_pause_was_on_its_way_records_nothing(tmp_path: Path) -> None:
    ring = RingWriter(tmp_path / "a.ring", RingIdentity(1, 1, -1, -1, 0), 64)
    stop = watch_collections(ring, -1)
    watching = gc.callbacks[-1]
    watching("start", {})
    time.sleep(0.002)
    stop()
    watching("stop", {"generation": 2, "collected": 0})
    time.sleep(0)
    assert collections(tmp_path / "a.ring") == []
    ring.close()


@pytest.mark.parametrize("collects", [True, False])
def test_attach_leaves_the_collector_as_it_was(data_dir: Path, no_streamer: None, collects: bool) -> None:
    """Also when an argument is refused."""
    was = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        loaderwatch.attach(DataLoader(NUMBERS))
        assert gc.isenabled() is collects
        with pytest.raises(ValueError, match="role"):
            loaderwatch.attach(DataLoader(NUMBERS), role="none")
        assert gc.isenabled() is collects
    finally:
        (gc.enable if was else gc.disable)()
