"""Stacks of a process whose other threads run on: they are whole, and the process survives them."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from loaderwatch.agent import hot
from loaderwatch.detect.measures.stacks import threads
from tests.waiting import PATIENCE_S

BUSY = """
import os, pathlib, signal, subprocess, sys, threading, time
from multiprocessing.connection import Client, Listener
from loaderwatch.agent.process.stack_signal import free_signal, register_stacks

path, number = pathlib.Path(sys.argv[1]), free_signal()
assert register_stacks(path, number)
listener = Listener(authkey=b"key")

def serve():
    while True:
        with listener.accept() as connection:
            connection.recv()

def ask():
    while True:
        with Client(listener.address, authkey=b"key") as connection:
            connection.send(1)

for target in (serve, ask):
    threading.Thread(target=target, daemon=True).start()

ASKING = f'''
import os, time
for _ in range(3000):
    os.kill({os.getpid()}, {number})
    time.sleep(0.0005)
'''

def main():
    asking = subprocess.Popen([sys.executable, "-c", ASKING])
    while asking.poll() is None:  # asleep as a waiting training process, without the GIL
        time.sleep(0.05)

main()
print("alive", flush=True)
os._exit(0)
"""


@pytest.mark.skipif(
    hot.guard_stacks is None or sys.version_info < (3, 11), reason="writes one thread's stack here"
)
def test_stacks_beside_threads_that_run_are_whole_and_cost_no_life(tmp_path: Path) -> None:
    """3,000 stacks. Beside threads that talk to each other, bare ``faulthandler`` crashed after 1 to 300."""
    path = tmp_path / "stacks"
    done = subprocess.run(
        [sys.executable, "-c", BUSY, str(path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr
    stacks = threads(path.read_text())
    mains = [stack for stack in stacks if [frame.function for frame in stack[-2:]] == ["main", "<module>"]]
    assert len(mains) > 100, "signals that come while one is answered wait for their turn or are dropped"
    assert len(mains) == path.read_text().count("Current thread "), (
        "each dump shows the main thread, whoever wrote it"
    )


@pytest.mark.skipif(hot.guard_stacks is None, reason="nothing was compiled")
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGBUS])
def test_a_crash_of_the_user_s_is_still_one(tmp_path: Path, number: signal.Signals) -> None:
    script = f"""
import os, pathlib, sys
from loaderwatch.agent.process.stack_signal import free_signal, register_stacks
answered = free_signal()
register_stacks(pathlib.Path(sys.argv[1]), answered)
os.kill(os.getpid(), answered)
os.kill(os.getpid(), {int(number)})
"""
    path = tmp_path / "stacks"
    done = subprocess.run([sys.executable, "-c", script, str(path)], timeout=PATIENCE_S, check=False)
    assert done.returncode == -number
    assert "line 6 in <module>" in path.read_text()
