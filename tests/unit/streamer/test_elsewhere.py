"""Where there is no /proc: what psutil tells, what nobody does, and a stderr that was handed on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from loaderwatch.core import clock
from loaderwatch.core.system import pid_in_use
from loaderwatch.streamer.job_stderr import MOST_WAITING, JobStderr
from loaderwatch.streamer.rings import RingFolder
from loaderwatch.streamer.roster import Roster
from loaderwatch.streamer.samplers.host import HostSampler
from loaderwatch.streamer.samplers.process import ProcessSampler, process_began_s
from loaderwatch.streamer.samplers.procfs import ProcessFiles
from tests.fakes.ring_writer import open_rings
from tests.fakes.streaming import wait_for
from tests.waiting import Stopwatch

SECOND = 10**9
NOWHERE = Path("/nowhere")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """Another process."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def burn(seconds: float) -> float:
    """Use ``seconds`` of CPU time, however long that takes; returns the time that must be seen at least."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    return seconds - 0.03  # the kernel counts in ticks


def test_the_host_says_little_and_never_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first CPU ratio would be 0.0 for not known yet, and so would Windows' load."""
    monkeypatch.delattr(os, "getloadavg", raising=False)
    sampler = HostSampler(NOWHERE)
    first = sampler.sample(os.getpid(), SECOND)
    known = {name: value for name, value in first.items() if value is not None}
    assert set(known) == {"memory_available_bytes", "memory_total_bytes", "streamer_rss_bytes"}
    assert min(float(value) for value in known.values()) > 2**20
    burnt = burn(0.3)
    row = sampler.sample(os.getpid(), SECOND + 3 * SECOND // 10)
    assert {name for name, value in row.items() if value is not None} == {
        *known,
        "cpu_ratio",
        "streamer_cpu_ratio",
    }
    assert 0 < float(row["cpu_ratio"] or 0) <= 1
    ratio = float(row["streamer_cpu_ratio"] or 0)
    assert burnt <= 0.3 * ratio <= time.process_time(), "what it burnt, and no more than it ever used"
    info = sampler.info(None)
    assert (info.memory_bytes, info.shm_bytes, info.boot_id) == (known["memory_total_bytes"], None, None)


def test_a_process_says_its_cpu_and_memory() -> None:
    """A state is said only where it is one: "running" is what other systems call a process that sleeps."""
    sampler = ProcessSampler(NOWHERE)
    files = ProcessFiles(os.getpid(), NOWHERE)
    first = sampler.sample(files, SECOND)
    assert first is not None
    assert (first.state, first.read_chars, first.traced, first.wchan) == (None, None, None, None)
    assert {name for name, value in first.values.items() if value is not None} == {"rss_bytes", "threads"}
    burnt = burn(0.3)
    second = sampler.sample(files, SECOND + 3 * SECOND // 10)
    assert second is not None
    ratio = float(second.values["cpu_ratio"] or 0)
    assert burnt <= 0.3 * ratio <= time.process_time()
    assert sampler.look(files) is None
    sampler.forget_dead(set())
    third = sampler.sample(files, 2 * SECOND)
    assert third is not None
    assert third.values["cpu_ratio"] is None


def test_a_process_that_may_not_be_asked_is_there_and_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(self: psutil.Process) -> None:
        raise psutil.AccessDenied(self.pid)

    monkeypatch.setattr(psutil.Process, "status", denied)
    reading = ProcessSampler(NOWHERE).sample(ProcessFiles(os.getpid(), NOWHERE), SECOND)
    assert reading is not None
    assert (reading.state, reading.values) == (None, {})
    assert process_began_s(os.getpid()) == 0.0


def test_a_process_that_ended_is_gone_even_while_nobody_collects_it(child: subprocess.Popen[bytes]) -> None:
    """A zombie has a pid, which psutil calls existing."""
    sampler = ProcessSampler(NOWHERE)
    files = ProcessFiles(child.pid, NOWHERE)
    assert process_began_s(child.pid) == psutil.Process(child.pid).create_time()
    assert sampler.sample(files, SECOND) is not None
    child.kill()
    wait_for(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
    assert pid_in_use(child.pid)
    assert process_began_s(child.pid) is None
    assert sampler.sample(files, 2 * SECOND) is None
    child.wait()
    assert process_began_s(child.pid) is None
    assert sampler.sample(files, 3 * SECOND) is None


def test_a_pid_that_came_again_is_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows gives pids out again soon: a run would never end."""
    open_rings(tmp_path / "rings", rank=0, workers=0)
    roster = Roster(RingFolder(tmp_path / "rings", {}, tmp_path / "aside"), NOWHERE)
    roster.refresh(time.monotonic_ns())
    roster.check_alive(time.monotonic_ns())
    assert not roster.all_dead()
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: time.time() + 5)
    roster.check_alive(time.monotonic_ns())
    assert roster.all_dead()


def test_suspends_are_noticed_on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    """There the monotonic clock stops while the lid is closed, and the raw one goes on."""
    slept = 0
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    monkeypatch.setattr(time, "CLOCK_UPTIME_RAW", 8, raising=False)
    monkeypatch.setattr(time, "clock_gettime_ns", lambda _: time.monotonic_ns() + slept)
    around = Stopwatch()
    with around():
        before = clock.slept_ns()
        slept = 3600 * SECOND
        after = clock.slept_ns()
    assert abs(after - before - 3600 * SECOND) <= around.total_ns
    monkeypatch.delattr(time, "CLOCK_UPTIME_RAW")
    began = time.monotonic_ns()
    assert began <= clock.boot_ns() <= time.monotonic_ns()  # Windows, where it counts them


def test_lines_go_to_a_stderr_that_was_handed_on() -> None:
    """Whole, in order, on one line each; and its reader comes to its end when the job has ended."""
    read, write = os.pipe()
    stderr = JobStderr(write)
    assert stderr.write("hello")
    assert stderr.write("a\x1b\nb")
    stderr.close()
    stderr.close()
    with os.fdopen(read, "rb") as file:
        assert file.read().decode() == "hello\na b\n"
    assert not stderr.write("too late")


def test_a_stderr_that_takes_nothing_is_not_waited_for() -> None:
    """Its reader is slow: lines are given up, and neither saying nor closing waits."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    with pytest.raises(BlockingIOError):  # noqa: PT012 - which write it is, nobody knows
        while True:
            os.write(write, b"x" * 65536)
    os.set_blocking(write, True)
    stderr = JobStderr(write)
    said = [stderr.write(f"line {number}") for number in range(2 * MOST_WAITING)]
    assert MOST_WAITING <= sum(said) <= MOST_WAITING + 1
    stderr.close()  # a close that waited would never end: nobody reads yet
    with os.fdopen(read, "rb") as file:
        assert file.read().lstrip(b"x").startswith(b"line 0\nline 1\n")
    wait_for(lambda: "job stderr" not in [thread.name for thread in threading.enumerate()])


def test_who_stands_by_holds_no_pipe_open(tmp_path: Path) -> None:
    """Its reader would wait for it after the job; nobody waits for the end of a file or a terminal."""
    read, write = os.pipe()
    stderr = JobStderr(write)
    stderr.stand_by()
    assert os.read(read, 1) == b""
    os.close(read)
    assert not stderr.write("hello")
    path = tmp_path / "err"
    with path.open("wb") as file:
        kept = JobStderr(os.dup(file.fileno()))
    kept.stand_by()
    assert kept.write("hello")
    kept.close()
    wait_for(lambda: path.read_text() == "hello\n")
