"""Stacks from real processes, by a real signal."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.fakes.receiver import Receiver
from tests.fakes.streaming import Streaming

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc")


def test_an_old_wait_brings_the_stack_that_blocks(data_dir: Path) -> None:
    """Five seconds in one span, and the page holds the line; the request of the server brings another."""
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        before = time.time_ns()
        trainee = it.write(steps=10, hang=3600, signal=True)
        it.stream()
        receiver.wait_for(lambda: any(e.stacks for e in receiver.in_order()))
        dump = next(e.stacks[0] for e in receiver.in_order() if e.stacks)
        assert (dump.rank, dump.worker, dump.pid, dump.why) == (0, -1, trainee.pid, "open span")
        assert "blocked_here" in dump.text
        assert before < dump.taken_ns < time.time_ns()
        receiver.extra = {"stack_requests": [{"rank": 0}, {"rank": 77}]}
        receiver.wait_for(lambda: any(s.why == "requested" for e in receiver.in_order() for s in e.stacks))
        again = [s for e in receiver.in_order() for s in e.stacks if s.why == "requested"]
        assert again[0].text.count("most recent call first") == 1  # only what is new in the file
        assert trainee.poll() is None


def test_a_process_that_does_not_listen_is_never_signalled(data_dir: Path) -> None:
    """The signal would kill it: the kernel's mask decides, not what the ring says."""
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        trainee = it.write(steps=10, hang=3600, signal="lie")
        it.stream()
        receiver.wait_for(lambda: any(e.stacks for e in receiver.in_order()))
        dump = next(e.stacks[0] for e in receiver.in_order() if e.stacks)
        assert dump.text == ""
        assert "no handler" in dump.why
        assert trainee.poll() is None


def test_a_stopped_process_is_told_apart(data_dir: Path) -> None:
    """State T cannot answer; that itself is the finding."""
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        trainee = it.write(steps=10, hang=3600, signal=True)
        assert trainee.stdout is not None
        assert trainee.stdout.readline() == "written\n"
        os.kill(trainee.pid, signal.SIGSTOP)
        it.stream()
        receiver.wait_for(lambda: any(e.stacks for e in receiver.in_order()))
        dump = next(e.stacks[0] for e in receiver.in_order() if e.stacks)
        assert dump.text == ""
        assert "stopped (state T)" in dump.why
        assert receiver.in_order()[-1].spans[0].os_state == "T"
