"""The end of a script: its open span says from that moment on what the process does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import RingFolder

pytestmark = pytest.mark.usefixtures("data_dir", "no_streamer")

SCRIPT = """
import sys, threading, time
import torch
from torch.utils.data import DataLoader, TensorDataset
import loaderwatch

loader = loaderwatch.attach(DataLoader(TensorDataset(torch.rand(8, 2)), batch_size=2))
for batch in loader:
    pass
last_ns = time.monotonic_ns()

def ends_later():
    threading.main_thread().join()
    time.sleep(0.3)
    print(time.monotonic_ns())

threading.Thread(target=ends_later).start()
time.sleep(0.5)
print(last_ns, time.monotonic_ns(), flush=True)
"""


def run(tmp_path: Path, source: str) -> list[int]:
    script = tmp_path / "train.py"
    script.write_text(source)
    done = subprocess.run([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, check=False)
    return [int(word) for word in done.stdout.split()]


def test_the_span_begins_anew_when_the_script_is_over(tmp_path: Path, rings: RingFolder) -> None:
    """Before Python waits for the threads: what is registered with ``atexit`` comes only after that."""
    _, over_ns, ended_ns = run(tmp_path, SCRIPT)
    span = rings.main().span
    assert span is not None
    assert over_ns <= span.since_ns < ended_ns - 200_000_000


def test_a_script_that_ends_with_an_error_keeps_its_place(tmp_path: Path, rings: RingFolder) -> None:
    last_ns, over_ns, _ = run(tmp_path, SCRIPT + "raise ValueError('a fault')\n")
    span = rings.main().span
    assert span is not None
    assert span.since_ns <= last_ns < over_ns
