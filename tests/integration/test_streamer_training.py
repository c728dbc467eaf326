"""The whole path: a real script with ``loaderwatch.attach``, its streamer, and the server it starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from itertools import pairwise
from pathlib import Path

import pytest

from loaderwatch.core.config import load_settings
from loaderwatch.core.facts import LONG_STEP, OPEN_SPAN, StackDump
from loaderwatch.streamer.stack_moments.budget import OTHER_REASON_NS
from tests.fakes.receiver import Receiver
from tests.fakes.streaming import Streaming, kill_group, wait_for
from tests.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc"),
]

SCRIPT = """
import sys, time
import torch
import loaderwatch

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index == 40 and len(sys.argv) > 1:
            time.sleep(3600)  # the sample that never comes
        return torch.zeros(4)

loader = torch.utils.data.DataLoader(Samples(), batch_size=4, num_workers=2, prefetch_factor=2)
loaderwatch.attach(loader)
for epoch in range(2):
    for batch in loader:
        time.sleep(0.01)
"""


def _run(it: Streaming, script: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(script), *arguments],
        env={**it.environ, "LOADERWATCH_RUN": "train"},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def test_a_blocked_sample_brings_worker_index_and_stack(data_dir: Path, tmp_path: Path) -> None:
    """The four facts of a hang arrive: rank, worker, sample index, stack; the worker's death is seen too."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        trainee = _run(it, script, "hang")
        try:
            receiver.wait_for(
                lambda: {-1, 0, 1} <= {s.worker for e in receiver.in_order() for s in e.stacks if s.text}
            )
            dumps = [s for e in receiver.in_order() for s in e.stacks]
            blocked = next(s for s in dumps if "__getitem__" in s.text)
            assert blocked.worker == 0  # batch 10 of two workers
            assert "train.py" in blocked.text
            assert {s.worker for s in dumps} == {-1, 0, 1}
            last = receiver.in_order()[-1]
            spans = {span.worker: span for span in last.spans}
            assert spans[-1].phase == "wait"
            assert spans[-1].awaited_worker == 0
            assert (spans[0].phase, spans[0].sample_index, spans[0].pid) == ("fetch", 40, blocked.pid)
            assert spans[0].os_state == "S"
            assert spans[0].read_chars is not None
            receiver.wait_for(lambda: {0, 1} <= set(receiver.column("processes", "worker")))
            assert set(receiver.column("fetches", "worker")) == {0, 1}
            os.kill(trainee.pid, signal.SIGKILL)
            trainee.wait(PATIENCE_S)
            receiver.wait_for(lambda: receiver.in_order()[-1].final)
            assert receiver.in_order()[-1].processes[0].state == "crashed"
        finally:
            kill_group(trainee.pid)  # with the worker that sleeps
            trainee.communicate(timeout=PATIENCE_S)


LOGGING = """
import sys, time
import torch
import loaderwatch

def log_pictures():
    time.sleep(float(sys.argv[1]))

loader = torch.utils.data.DataLoader(torch.zeros(1000, 4), batch_size=2)
loaderwatch.attach(loader)
for number, batch in enumerate(loader):
    time.sleep(0.02)
    if number % 20 == 19:
        log_pictures()
"""


APART_S = OTHER_REASON_NS / 1e9 - 1
"""Stacks are dated as their files are read, up to a second after the signal."""


def logged(receiver: Receiver) -> list[StackDump]:
    """The stacks of steps that log; on a busy machine another step may be long as well."""
    stacks = (s for e in receiver.in_order() for s in e.stacks)
    return [s for s in stacks if s.why == LONG_STEP and "in log_pictures" in s.text]


def test_a_long_step_brings_a_stack_of_where_it_is(data_dir: Path, tmp_path: Path) -> None:
    """No second one within five seconds, however many long steps there are, nor one for another reason."""
    script = tmp_path / "train.py"
    script.write_text(LOGGING)
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        trainee = _run(it, script, "1.5")
        try:
            receiver.wait_for(lambda: len(logged(receiver)) >= 2)
            assert logged(receiver)[0].worker == -1
            stacks = [s for e in receiver.in_order() for s in e.stacks]
            for earlier, later in pairwise(stacks):
                if later.why == OPEN_SPAN:  # these do not wait; a loaded machine may stand still for long
                    continue
                is_series = earlier.why == later.why != LONG_STEP
                assert is_series or later.taken_ns - earlier.taken_ns >= APART_S * 1e9, (earlier, later)
        finally:
            kill_group(trainee.pid)
            trainee.communicate(timeout=PATIENCE_S)


def test_a_killed_worker_is_the_reason_that_is_shown(data_dir: Path, tmp_path: Path) -> None:
    """The training process says why it ended; the worker's span says that it is dead."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        trainee = _run(it, script, "hang")
        try:
            receiver.wait_for(lambda: any(s.text for e in receiver.in_order() for s in e.stacks))
            blocked = next(s for s in receiver.in_order()[-1].spans if s.sample_index == 40)
            os.kill(blocked.pid, signal.SIGKILL)
            trainee.wait(PATIENCE_S)
            receiver.wait_for(lambda: receiver.in_order()[-1].final)
            last = receiver.in_order()[-1].processes[0]
            assert last.state == "crashed"
            assert last.exit is not None
            assert "DataLoader worker" in last.exit
            assert any(s.pid == blocked.pid and not s.alive for e in receiver.in_order() for s in e.spans)
        finally:
            kill_group(trainee.pid)
            trainee.communicate(timeout=PATIENCE_S)


CUT_OFF = """
import os, signal, sys, time
import torch
import loaderwatch

loader = torch.utils.data.DataLoader(torch.zeros(64, 4), batch_size=4, num_workers=1, prefetch_factor=8)
loaderwatch.attach(loader)
batches = iter(loader)
next(batches)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
assert batches._worker_result_queue._reader.poll(60)  # the next one waits to be taken
signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # PyTorch's own handler often comes too late
os.kill(batches._workers[0].pid, signal.SIGKILL)
os.waitid(os.P_PID, batches._workers[0].pid, os.WEXITED | os.WNOWAIT)
for batch in batches:
    pass
"""


def test_a_worker_killed_while_it_hands_over_a_batch_is_named(data_dir: Path, tmp_path: Path) -> None:
    """PyTorch's error is then that of a socket, or says only that the worker "exited unexpectedly"."""
    script = tmp_path / "train.py"
    script.write_text(CUT_OFF)
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        trainee = _run(it, script, str(tmp_path / "seen"))
        try:
            receiver.wait_for(lambda: any(s.worker == 0 for e in receiver.in_order() for s in e.spans))
            (tmp_path / "seen").touch()
            trainee.wait(PATIENCE_S)
            receiver.wait_for(lambda: any(e.final for e in receiver.in_order()[-1:]))
            last = receiver.in_order()[-1]
            (worker,) = {s.pid for e in receiver.in_order() for s in e.spans if s.worker == 0}
            told = last.processes[0].exit
            assert told is not None
            assert "from ConnectionRefusedError" in told
            assert told.endswith(f", as DataLoader worker (pid {worker}) is killed by signal: Killed")
        finally:
            kill_group(trainee.pid)
            trainee.communicate(timeout=PATIENCE_S)


def test_without_a_server_one_is_started_and_stays(data_dir: Path, tmp_path: Path) -> None:
    """Two epochs, nothing configured: stderr names a page, and the page still knows the run afterwards."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    with Streaming(data_dir, None) as it:
        # As people run it: no token either.
        del it.environ["LOADERWATCH_TOKEN"]
        it.environ["LOADERWATCH_RUN"] = "train"
        settings = load_settings(it.environ)
        trainee = subprocess.run(
            [sys.executable, str(script)],
            env=it.environ,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert trainee.returncode == 0, trainee.stderr
        wait_for(settings.server_path.exists)
        server = json.loads(settings.server_path.read_bytes())
        wait_for(lambda: not it.streamer_pids())
        assert len(it.pids("serve")) == 1
        runs = _get(server["url"] + "/api/v1/runs", json.loads(settings.token_path.read_bytes())["viewer"])
        assert [(run["state"], run["world_size"]) for run in runs] == [("finished", 1)]


def _get(url: str, token: str) -> list[dict[str, object]]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with urllib.request.urlopen(request, timeout=10) as response:
            runs: list[dict[str, object]] = json.load(response)
        if runs or time.monotonic() > deadline:
            return runs
        time.sleep(0.2)
