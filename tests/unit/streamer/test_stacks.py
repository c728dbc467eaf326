"""When stacks are taken."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loaderwatch.agent.process.stack_signal import free_signals
from loaderwatch.core.facts import StackDump
from loaderwatch.core.records import Phase
from loaderwatch.core.ring import RingStatus, RingWriter
from loaderwatch.detect.measures.stacks import main_frames
from loaderwatch.streamer.rings import RingFolder
from loaderwatch.streamer.roster import Member, Roster
from loaderwatch.streamer.stack_moments.budget import LastStacks
from loaderwatch.streamer.stacks import StackCollector, cut_at_worker_loop, one_dump, send_signal
from tests.fakes.ring_writer import open_rings
from tests.waiting import wait_until

SECOND = 10**9
pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc")


def make(tmp_path: Path) -> tuple[Roster, RingWriter]:
    """This process as a rank that has registered no signal: each attempt to take a stack says so."""
    ring = open_rings(tmp_path / "rings", rank=0, workers=0)[0]
    roster = Roster(RingFolder(tmp_path / "rings", {}, tmp_path / "aside"))
    roster.refresh(time.monotonic_ns())
    return roster, ring


def taken_at(roster: Roster, since: int, until_s: int, usual: tuple[float, float] | None = None) -> list[int]:
    """The ages in seconds at which stacks were taken."""
    collector = StackCollector(LastStacks())
    ages = []
    for age in range(until_s):
        collector.poll(roster, {} if usual is None else {0: usual}, since + age * SECOND)
        if collector.take(0):
            ages.append(age)
    return ages


def test_at_5_10_30_60_and_then_every_minute(tmp_path: Path) -> None:
    """More often early, when the picture still changes."""
    roster, ring = make(tmp_path)
    since = time.monotonic_ns()
    ring.set_span(Phase.WAIT, since)
    assert taken_at(roster, since, 200) == [5, 10, 30, 60, 120, 180]


def test_steps_that_always_take_long_are_not_old(tmp_path: Path) -> None:
    """Three times the usual, where that is more than five seconds."""
    roster, ring = make(tmp_path)
    since = time.monotonic_ns()
    ring.set_span(Phase.FORWARD, since)
    assert taken_at(roster, since, 50, (0.1e9, 10e9)) == [30]


@pytest.mark.parametrize("phase", [Phase.OUTSIDE, Phase.USER])
def test_being_elsewhere_grows_old_slowly(tmp_path: Path, phase: Phase) -> None:
    """Between loops and in user phases time may pass, but a process stuck there needs a stack as well."""
    roster, ring = make(tmp_path)
    since = time.monotonic_ns()
    ring.set_span(phase, since)
    assert taken_at(roster, since, 800) == [5, 10, 30, 60, 120, 240, 360, 480, 600, 720]


def test_a_new_span_begins_anew(tmp_path: Path) -> None:
    """The age counts from the span."""
    roster, ring = make(tmp_path)
    since = time.monotonic_ns()
    collector = StackCollector(LastStacks())
    ring.set_span(Phase.WAIT, since)
    collector.poll(roster, {}, since + 6 * SECOND)
    assert len(collector.take(0)) == 1
    ring.set_span(Phase.WAIT, since + 7 * SECOND)
    collector.poll(roster, {}, since + 11 * SECOND)
    assert collector.take(0) == []
    collector.poll(roster, {}, since + 13 * SECOND)
    assert collector.take(100)[0].taken_ns == since + 13 * SECOND + 100


def test_no_signal_without_a_handler(tmp_path: Path) -> None:
    """The last check is at the kernel; this process would die of it."""
    roster, ring = make(tmp_path)
    nobodys = free_signals()[-1]  # the agent's tests may have given this process handlers for others
    ring.set_status(RingStatus(False, nobodys, 0, False))
    member = roster.mains[os.getpid()]
    assert send_signal(member, nobodys) is False
    collector = StackCollector(LastStacks())
    collector.request(0, roster, time.monotonic_ns())
    dump = collector.take(0)[0]
    assert (dump.text, dump.why) == ("", f"process has no handler for signal {nobodys}: none was sent")


def test_no_signal_to_another_process_with_the_pid(tmp_path: Path) -> None:
    """The start time tells them apart."""
    child = subprocess.Popen(["sleep", "60"])
    try:
        open_rings(tmp_path / "rings", rank=0, workers=0, pid=child.pid)
        roster = Roster(RingFolder(tmp_path / "rings", {}, tmp_path / "aside"))
        roster.refresh(time.monotonic_ns())
        member = roster.mains[child.pid]
        assert member.start_ticks is not None
        member.start_ticks -= 1
        assert send_signal(member, 15) is False
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()
    assert send_signal(member, 15) is False


NUMBER = signal.SIGRTMAX - 12
"""No agent's number: the lowest may have the handler of an agent that another test attached here."""
IN_D = """
import faulthandler, os, sys, threading
from tests.fakes.kernel_wait import wait_in_kernel

def read_a_dead_mount():
    print("ready", flush=True)
    wait_in_kernel(30)

file = open(os.path.join(sys.argv[1], f"main-{os.getpid()}.stack"), "ab", buffering=0)
faulthandler.register(int(sys.argv[2]), file=file, all_threads=True)
if sys.argv[3] == "helped":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
read_a_dead_mount()
"""


class Waiting:
    """A process whose main thread is in state D, its roster, and how often it was signalled."""

    def __init__(self, folder: Path, other_thread: str, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self.folder = folder
        self.child = subprocess.Popen(
            [sys.executable, "-c", IN_D, str(folder), str(NUMBER), other_thread],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.signals = 0
        monkeypatch.setattr("loaderwatch.streamer.stacks.send_signal", self.send)

    def __enter__(self) -> Waiting:
        ring = open_rings(self.folder, rank=0, workers=0, pid=self.child.pid)[0]
        ring.set_status(RingStatus(False, NUMBER, 0, False))
        self.roster = Roster(RingFolder(self.folder, {}, self.folder / "aside"))
        self.roster.refresh(time.monotonic_ns())
        assert self.child.stdout is not None
        assert self.child.stdout.readline() == b"ready\n"
        wait_until("state D", lambda: self.state() == "D")
        return self

    def __exit__(self, *args: object) -> None:
        os.killpg(self.child.pid, signal.SIGKILL)  # and the child that it waits for
        self.child.communicate()

    def state(self) -> str:
        """The letter of /proc."""
        stat = self.roster.mains[self.child.pid].files.stat()
        return stat.state if stat else ""

    def send(self, member: Member, number: int) -> bool:
        """Count, and send."""
        self.signals += 1
        return send_signal(member, number)

    def ask(self, collector: StackCollector, at_ns: int, *, given_up_s: int = 0) -> StackDump:
        """The answer to a request for its stack, in any time, or ``given_up_s`` after the signal."""
        collector.request(0, self.roster, at_ns)
        assert collector.take(0) == [], "such a wait is often over in a moment"
        at_ns += SECOND + 1
        collector.poll(self.roster, {}, at_ns)

        def answer() -> list[StackDump]:
            collector.poll(self.roster, {}, at_ns + given_up_s * SECOND)
            return collector.take(0)

        (dump,) = wait_until("an answer", answer)
        return dump


@pytest.fixture
def waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Waiting]:
    with Waiting(tmp_path / "rings", request.param, monkeypatch) as it:
        yield it


@pytest.mark.parametrize("waiting", ["helped"], indirect=True)
def test_another_thread_answers_for_one_in_an_uninterruptible_wait(waiting: Waiting) -> None:
    """A dead mount: the first signal stays with the main thread, and the second one goes to another."""
    collector = StackCollector(LastStacks())
    for asked in (1, 2):
        dump = waiting.ask(collector, asked * 100 * SECOND)
        assert dump.text.count("most recent call first") == 2, "one dump of two threads"
        assert "in read_a_dead_mount" in dump.text
        assert (dump.why, waiting.signals) == ("requested", 2 * asked)
    assert [frame.function for frame in main_frames(dump)] == [
        "wait_in_kernel",
        "read_a_dead_mount",
        "<module>",
    ]


@pytest.mark.parametrize("waiting", ["alone"], indirect=True)
def test_a_lone_thread_in_an_uninterruptible_wait_gets_two_signals_in_all(waiting: Waiting) -> None:
    """They queue up until its wait is over."""
    collector = StackCollector(LastStacks())
    for asked in (1, 2, 3):
        dump = waiting.ask(collector, asked * 100 * SECOND, given_up_s=2)
        assert dump.text == ""
        assert dump.why.startswith("process is in an uninterruptible wait (state D, ")
    assert waiting.signals == 2


def test_a_stack_is_of_the_moment_at_which_it_was_asked_for(tmp_path: Path) -> None:
    """It is read two looks later, when a long step may be over."""
    roster, ring = make(tmp_path)
    ring.set_status(RingStatus(False, NUMBER, 0, False))
    (member,) = roster.mains.values()
    with Path(member.ring.stack_path).open("ab", buffering=0) as file:
        faulthandler.register(NUMBER, file=file)
        try:
            collector = StackCollector(LastStacks())
            collector.request(0, roster, SECOND)
            # Another thread of this process may be the one that takes the signal, and takes its time.
            wait_until("a stack", lambda: Path(member.ring.stack_path).stat().st_size)
            for look in (2, 3):
                collector.poll(roster, {}, look * SECOND)
        finally:
            faulthandler.unregister(NUMBER)
    (dump,) = collector.take(0)
    assert "test_a_stack_is_of_the_moment" in dump.text
    assert dump.taken_ns == SECOND


def test_two_dumps_in_one_text() -> None:
    """Where a thread without Python code takes the signals, no thread is the current one."""
    dump = (
        'Thread 0x02 (most recent call first):\n  File "q.py", line 1 in _feed\n\n'
        "Thread 0x01 (most recent call first):\n"
    )
    assert one_dump(dump * 2) == dump
    current = dump.replace("Thread 0x02", "Current thread 0x02")
    assert one_dump(current + dump) == current
    assert one_dump("Stack (most recent call first):\n") == "Stack (most recent call first):\n"


def test_the_parents_frames_are_cut_from_a_workers_stack() -> None:
    other = (
        "Thread 0x01 (most recent call first):\n"
        '  File "q.py", line 1 in _feed\n  File "t.py", line 2 in run\n\n'
    )
    mine = 'Current thread 0x02 (most recent call first):\n  File "data.py", line 5 in __getitem__\n'
    loop = '  File "worker.py", line 374 in _worker_loop\n'
    parents = '  File "popen_fork.py", line 71 in _launch\n  File "train.py", line 9 in main\n'
    assert cut_at_worker_loop(other + mine + loop + parents) == other + mine + loop
    assert cut_at_worker_loop(mine + loop + parents + "\n" + other) == mine + loop + "\n" + other
    assert (
        cut_at_worker_loop(mine + parents) == mine + parents
    )  # another version of PyTorch: nothing to go by
