"""``loaderwatch stacks``: a real training with workers is asked by a real server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.serving import Access, ServeProcess
from tests.fakes.streaming import end_processes, kill_group
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc"),
]

SCRIPT = """
import time
import torch
import loaderwatch

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 10**6

    def __getitem__(self, index):
        read_one_sample()
        return torch.zeros(4)

def read_one_sample():
    time.sleep(0.05)

def one_step():
    time.sleep(0.2)

loader = torch.utils.data.DataLoader(Samples(), batch_size=4, num_workers=2)
for batch in loaderwatch.attach(loader):
    one_step()
"""


def stacks(data_dir: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LOADERWATCH_")}
    return subprocess.run(
        [sys.executable, "-m", "loaderwatch", "stacks", *arguments],
        env={**clean, "LOADERWATCH_DIR": str(data_dir), **env},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Access]:
    with ServeProcess(tmp_path / "data", "--port", "0") as process:
        yield process.start()
    end_processes(tmp_path / "data")


@pytest.fixture
def training(served: Access, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    (tmp_path / "train.py").write_text(SCRIPT)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LOADERWATCH_")}
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "train.py")],
        env={**clean, "LOADERWATCH_DIR": str(tmp_path / "data"), "LOADERWATCH_RUN": "mine"},
        start_new_session=True,
    )
    try:
        wait_until(
            "both workers are seen",
            lambda: (
                any(row["run_id"] == "mine" for row in served.get("/runs"))
                and len(served.get("/runs/mine/workers")) == 3
            ),
        )
        yield process
    finally:
        kill_group(process.pid)
        process.wait(PATIENCE_S)


@pytest.mark.usefixtures("training")
def test_every_process_is_shown_at_its_line(tmp_path: Path) -> None:
    shown = stacks(tmp_path / "data", "mine", "--within", "60")
    assert shown.returncode == 0, shown.stderr
    heads = re.findall(r"^rank 0, (.+) \(pid \d+\), \d\d:\d\d:\d\d$", shown.stdout, re.MULTILINE)
    assert heads == ["training process", "worker 0", "worker 1"]
    assert "train.py" in shown.stdout
    assert "_worker_loop" in shown.stdout


def test_a_stopped_process_is_named_with_its_state(
    training: subprocess.Popen[bytes], tmp_path: Path, served: Access
) -> None:
    workers = [row["pid"] for row in served.get("/runs/mine/workers") if row["worker"] == 1]
    os.kill(workers[0], signal.SIGSTOP)
    shown = stacks(tmp_path / "data", "mine", "--within", "60")
    assert shown.returncode == 0, shown.stderr
    assert "process is stopped (state T): it cannot answer" in shown.stdout
    os.kill(workers[0], signal.SIGCONT)


@pytest.mark.usefixtures("training")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["yours"], "no run 'yours' here; the newest are mine"),
        (["mine", "--rank", "7"], "nobody is there to be asked: the run mine is live; it has 1 ranks"),
    ],
)
def test_what_cannot_be_asked_is_said(tmp_path: Path, arguments: list[str], told: str) -> None:
    shown = stacks(tmp_path / "data", *arguments)
    assert (shown.returncode, shown.stdout) == (1, "")
    assert told in shown.stderr


def test_a_viewers_token_is_not_enough(
    training: subprocess.Popen[bytes], tmp_path: Path, served: Access
) -> None:
    assert training.poll() is None
    viewer = json.loads((tmp_path / "data" / "token.json").read_text())["viewer"]
    shown = stacks(tmp_path / "data", "mine", LOADERWATCH_SERVER=served.url, LOADERWATCH_TOKEN=viewer)
    assert shown.returncode == 1
    assert "takes this only from its owner" in shown.stderr


def test_without_a_server_nobody_is_asked(tmp_path: Path) -> None:
    shown = stacks(tmp_path / "empty", "mine")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert "no server is up" in shown.stderr
