"""What a thread does, read from /proc: for a real thread in each state."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loaderwatch.core.records import ThreadState
from loaderwatch.streamer.profile.remote_stack import RemoteStacks
from loaderwatch.streamer.profile.thread_states import ThreadStates
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs Linux's /proc")
VERSION = sys.version_info[:2]

Start = Callable[[str], int]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a script and return its pid."""
    children: list[subprocess.Popen[bytes]] = []

    def begin(code: str) -> int:
        children.append(subprocess.Popen([sys.executable, "-c", code]))
        return children[-1].pid

    yield begin
    for child in children:
        child.kill()
        child.wait()


def state(pid: int, states: ThreadStates | None = None, proc: Path = Path("/proc")) -> ThreadState | None:
    """The state of a process's main thread."""
    states = states or ThreadStates(pid, random.Random(1), proc)
    return states.state(pid, RemoteStacks(pid, VERSION, 0).bytes_at)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import time; time.sleep(60)", ThreadState.TIMER),
        (
            "import threading; threading.Lock().acquire(); k = threading.Lock(); k.acquire(); k.acquire()",
            "LOCK",
        ),
        ("import os; os.read(os.pipe()[0], 1)", ThreadState.PIPE),
        ("import socket; a, b = socket.socketpair(); a.recv(1)", ThreadState.NETWORK),
        ("import socket; a, b = socket.socketpair(); a.settimeout(60); a.recv(1)", ThreadState.NETWORK),
        ("import os, select; p = select.poll(); p.register(os.pipe()[0]); p.poll()", ThreadState.PIPE),
        ("import subprocess; subprocess.run(['sleep', '60'])", ThreadState.CHILD),
        ("import multiprocessing as m; a, b = m.Pipe(); a.recv()", ThreadState.NETWORK),
        ("import multiprocessing as m; a, b = m.Pipe(False); a.recv()", ThreadState.PIPE),
        ("import signal; signal.pause()", ThreadState.WAITING),
    ],
)
def test_what_a_thread_waits_for(start: Start, code: str, expected: ThreadState | str) -> None:
    """By the kernel's function, and by the descriptor where the function serves all of them."""
    pid = start(code)
    state_name = expected if isinstance(expected, str) else expected.name
    wait_until(f"a thread in {state_name}", lambda: getattr(state(pid), "name", None) == state_name)


def test_a_file_lock(start: Start, tmp_path: Path) -> None:
    """It counts as a lock."""
    code = f"import fcntl; f = open({str(tmp_path / 'lock')!r}, 'w'); fcntl.flock(f, fcntl.LOCK_EX);"
    start(code + "import time; time.sleep(60)")
    wait_until("the file", (tmp_path / "lock").exists)
    time.sleep(0.3)
    pid = start(code)
    wait_until("a waiting process", lambda: state(pid) is ThreadState.LOCK)


def test_a_running_thread(start: Start) -> None:
    """It computes."""
    pid = start("while True: pass")
    wait_until("a running process", lambda: state(pid) is ThreadState.RUNNING)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs processes bound to a CPU")
def test_two_threads_on_one_cpu(start: Start) -> None:
    """Each of them lacks the CPU half of the time, so half of its samples say so."""
    code = f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\nwhile True: pass"
    pid = start(code)
    start(code)
    time.sleep(0.5)
    states = ThreadStates(pid, random.Random(1))
    state(pid, states)
    counts: Counter[ThreadState | None] = Counter()
    for _ in range(200):
        time.sleep(0.01)
        counts[state(pid, states)] += 1
    assert set(counts) <= {ThreadState.RUNNING, ThreadState.RUNNABLE}
    # Other programs may use the same CPU: then it lacks the CPU even more often.
    assert counts[ThreadState.RUNNABLE] >= 60
    assert counts[ThreadState.RUNNING] >= 5


@pytest.mark.parametrize(
    ("stat", "wchan", "expected"),
    [
        ("D", "folio_wait_bit_common", ThreadState.DISK),
        ("D", "", ThreadState.DISK),
        ("D", "rpc_wait_bit_killable", ThreadState.DISK),
        ("S", "futex_wait_queue", ThreadState.LOCK),
        ("S", "do_epoll_wait", ThreadState.WAITING),
        ("S", "0", ThreadState.WAITING),
        ("Z", "", None),
    ],
)
def test_states_that_cannot_be_made_here(
    tmp_path: Path, stat: str, wchan: str, expected: ThreadState | None
) -> None:
    """From files as the kernel writes them."""
    folder = tmp_path / "7" / "task" / "7"
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"7 (a) b) {stat} 1 1 1")
    (folder / "wchan").write_text(wchan)
    assert ThreadStates(7, random.Random(1), tmp_path).state(7, lambda at, size: b"") is expected


def test_an_ended_process(tmp_path: Path) -> None:
    """It has no state."""
    assert ThreadStates(7, random.Random(1), tmp_path).state(7, lambda at, size: b"") is None
