"""How the error that ends a training is described, and which dead worker is named with it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from loaderwatch.agent.process.closing_lines import describe_error, how_ended, why_failed
from loaderwatch.texts import say
from tests.waiting import PATIENCE_S


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("no such label"), "ValueError: no such label"),
        (KeyError(), "KeyError"),
        (RuntimeError("first\n  middle\nlast\n"), "RuntimeError: first last"),
        (raised(RuntimeError("outer"), OSError("disk")), "RuntimeError: outer, from OSError: disk"),
        (ValueError("x" * 600), f"ValueError: {'x' * 488}"),
    ],
)
def test_one_line(error: BaseException, expected: str) -> None:
    assert describe_error(error) == expected


def test_where_an_error_came_up_is_the_scripts_line_and_the_librarys_function() -> None:
    def convert(value: Any) -> torch.Tensor:
        return torch.ones(2).reshape(value)

    with pytest.raises(TypeError) as in_script:
        convert("3")
    here = f"{Path(__file__).name}:{in_script.traceback[-1].lineno + 1} in convert"
    assert say(how_ended(in_script.value, 0)).startswith("crashed before its first step: TypeError: ")
    assert say(how_ended(in_script.value, 0)).endswith(f"({here})")
    with pytest.raises(json.JSONDecodeError) as in_library:
        json.loads("{")
    assert re.search(
        r"^crashed on rank 3 in step 1,204: JSONDecodeError: .+"
        r" \(test_closing_lines_end_reason.py:\d+ in test_where\w+,"
        r" raised in .*raw_decode\)$",
        say(how_ended(in_library.value, 1204, 3)),
    )
    assert say(how_ended(ValueError("no"), 1)) == "crashed in step 1: ValueError: no"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyboardInterrupt(), "stopped by Ctrl-C (KeyboardInterrupt) in step 5"),
        (SystemExit(143), "stopped by SIGTERM in step 5"),
        (SystemExit(2), "ended with exit code 2 in step 5"),
        (SystemExit("no such file"), "ended with exit code no such file in step 5"),
    ],
)
def test_who_stops_a_job_is_said_to(error: BaseException, said: str) -> None:
    assert say(how_ended(error, 5)) == said


SCRIPT = """
import os, signal, sys, time
import torch
from torch.utils.data import DataLoader, Dataset
from loaderwatch.agent.process.closing_lines import describe_error

class Killed(Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, index):
        if index == 2:  # the last of those that are read ahead
            time.sleep(1.0)
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.zeros(2)

try:
    for _ in DataLoader(Killed(), batch_size=1, num_workers=1):
        time.sleep(60)  # in a step, so that no batch is just being taken from the worker that dies
except RuntimeError as error:
    told = error
    if "exited unexpectedly" not in str(error):
        told = RuntimeError("DataLoader worker (pid(s) 7) exited unexpectedly")
        told.__cause__ = error
    print(describe_error(told))
    sys.stdout.flush()
    os._exit(0)  # DataLoader's handler of SIGCHLD may raise once more
"""


def test_what_killed_a_worker_is_named_however_it_is_found() -> None:
    """DataLoader notices the death in a signal handler, or at its next poll, which says less."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout.startswith("RuntimeError: DataLoader worker (pid(s) ")
    assert ", from RuntimeError: DataLoader worker (pid " in done.stdout
    assert "is killed by signal: Killed" in done.stdout


class Zeros(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(2)


@pytest.mark.parametrize("seen", [True, False])
def test_a_killed_worker_is_named_where_the_error_does_not(
    seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch sees that the worker is dead, or it looks just before and passes the socket's error on."""
    batches: Any = iter(DataLoader(Zeros(), batch_size=4, num_workers=1, prefetch_factor=8))
    next(batches)
    (worker,) = batches._workers
    assert batches._worker_result_queue._reader.poll(PATIENCE_S)  # the next one waits to be taken
    handler = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # PyTorch's would be reported first
    try:
        worker.kill()
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
        if not seen:
            monkeypatch.setattr(worker, "is_alive", lambda: True)
        with pytest.raises((ConnectionError, EOFError, RuntimeError)) as raised:
            next(batches)
        assert isinstance(raised.value, RuntimeError) == seen
        assert why_failed(raised.value) == (
            f"uncaught {describe_error(raised.value)}, as DataLoader worker (pid {worker.pid}) is killed by"
            " signal: Killed"
        )
    finally:
        signal.signal(signal.SIGCHLD, handler)
        monkeypatch.undo()
        del batches


def test_another_error_names_no_worker() -> None:
    assert why_failed(ValueError("no such label")) == "uncaught ValueError: no such label"
    assert why_failed(ConnectionResetError("the bucket's")) == "uncaught ConnectionResetError: the bucket's"


NOTEBOOK = """
import sys
def run_code():
    try:
        exec(compile("raise KeyboardInterrupt", "cell", "exec"))
    except KeyboardInterrupt as error:
        sys.last_value = error
run_code()
"""
INTERRUPTED = """
import atexit
from loaderwatch.agent.process.closing_lines import keep_interrupted

def end():
    import sys
    exec("1")  # as imports of libraries do
    keep_interrupted(getattr(sys, "last_exc", None) or sys.last_value)

atexit.register(end)
"""


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("def run(): raise KeyboardInterrupt\nrun()", -signal.SIGINT),
        ("raise ValueError", 1),
        (NOTEBOOK, 0),
    ],
)
def test_an_interrupted_script_still_ends_by_sigint(tmp_path: Path, script: str, code: int) -> None:
    """In a notebook an interrupt ends a cell, and the process goes on."""
    path = tmp_path / "train.py"
    path.write_text(INTERRUPTED + script)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == code, done.stderr
