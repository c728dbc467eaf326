"""``loaderwatch tune`` over real scripts: it tries their loader, and they never train."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("data_dir")]

SCRIPT = """
import time, torch
from torch.utils.data import DataLoader, Dataset

class Pictures(Dataset):
    def __len__(self):
        return 4000
    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.zeros(3, 32, 32)

def main():
    print("loading")
    train_loader = DataLoader(Pictures(), batch_size=4, shuffle=True)
    try:
        for batch in train_loader:
            print("TRAINED")
    except BaseException:
        print("CAUGHT")
    finally:
        open("checkpoint.pt", "w").close()

if __name__ == "__main__":
    main()
"""


def start(folder: Path, source: str, *options: str) -> subprocess.Popen[str]:
    (folder / "train.py").write_text(source)
    return subprocess.Popen(
        [sys.executable, "-m", "loaderwatch", "tune", *options, "train.py"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def tune(folder: Path, source: str, *options: str) -> tuple[int, str, str]:
    process = start(folder, source, *options)
    said, told = process.communicate(timeout=PATIENCE_S)
    assert left_over(folder) == []
    return process.returncode, said, told


def left_over(folder: Path) -> list[str]:
    """Processes that still run in the script's folder, after a moment for those being killed."""
    deadline = time.monotonic() + PATIENCE_S / 10
    while True:
        found = []
        for process in psutil.process_iter(["cwd", "status"]):
            if process.info["cwd"] == str(folder) and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def test_it_advises_workers_and_nothing_is_trained(tmp_path: Path) -> None:
    """A batch takes 20 ms or more without workers, and a step takes 15."""
    code, said, told = tune(tmp_path, SCRIPT, "--seconds", "5", "--step-ms", "15", "--json")
    assert code == 0, told
    found: dict[str, Any] = json.loads(said)
    assert (found["loader"], found["made_at"], found["num_workers"]) == ("train_loader", "train.py:14", 0)
    assert found["advised_workers"] >= 1
    assert found["trials"][0]["num_workers"] == 0
    assert "num_workers=0" in told, "each trial is told as it ends"
    assert not (tmp_path / "checkpoint.pt").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"]


def test_it_prints_the_line_to_paste(tmp_path: Path) -> None:
    code, said, _ = tune(tmp_path, SCRIPT, "--seconds", "3")
    assert code == 0
    assert "train_loader (train.py:14)" in said
    assert "Use DataLoader(…, num_workers=" in said
    assert "← now" in said
    assert "With --step-ms" in said


RUN = (
    SCRIPT.replace(
        "train_loader = DataLoader(Pictures(), batch_size=4, shuffle=True)",
        "train_loader = DataLoader(Pictures(), 4, True)",
    )
    .replace(
        "for batch in train_loader:",
        "for batch in list(zip(range(2), train_loader)):",
    )
    .replace('print("TRAINED")', 'print("WORKERS", train_loader.num_workers, train_loader.batch_size)')
)


def test_the_next_run_starts_with_it_once(tmp_path: Path, data_dir: Path) -> None:
    code, _, told = tune(tmp_path, RUN, "--seconds", "5", "--step-ms", "40", "--apply-env")
    assert code == 0, told
    assert "The next `loaderwatch run` of train.py starts with num_workers=" in told
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", "loaderwatch", "run", "train.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr
        said.append((done.stdout, done.stderr))
    (first, notice), (second, silence) = said
    workers = re.findall(r"WORKERS (\d+) 4", first)
    assert workers
    assert int(workers[0]) >= 1
    assert f"train_loader (train.py:14) starts with num_workers={workers[0]}" in notice
    assert re.findall(r"WORKERS (\d+) 4", second) == ["0", "0"]
    assert "starts with" not in silence


def test_an_interrupt_gives_what_is_known(tmp_path: Path) -> None:
    process = start(tmp_path, SCRIPT, "--seconds", "300")
    assert process.stderr is not None
    for _ in range(2):  # two trials
        assert "num_workers=" in process.stderr.readline()
    os.kill(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "train_loader (train.py:14)" in said
    assert "because you stopped it" in said
    assert left_over(tmp_path) == []


NO_LOADER = "print('hello')"
RAISES = SCRIPT.replace("time.sleep(0.005)", "raise KeyError('label')")
ONCE = """
from torch.utils.data import DataLoader, IterableDataset

class Rows(IterableDataset):
    def __init__(self):
        self.rows = iter(range(40))
    def __iter__(self):
        return self.rows

for batch in DataLoader(Rows(), batch_size=4):
    print("TRAINED")
"""


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (NO_LOADER, "train.py has no training loader to try: it iterated no torch.utils.data.DataLoader"),
        (RAISES, "train.py: reading a batch with num_workers=0 failed with KeyError: 'label'"),
        (ONCE, "train.py: the dataset gives its rows once only, so that nothing can be compared"),
    ],
    ids=["no loader", "raises", "once"],
)
def test_bad_scripts_get_one_clear_line(tmp_path: Path, source: str, line: str) -> None:
    code, said, told = tune(tmp_path, source, "--seconds", "2")
    assert code == 1
    assert said == ""
    assert told.splitlines()[0] == f"loaderwatch: {line}"
    assert "TRAINED" not in told


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "loaderwatch", "tune", "nowhere.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 2
    assert done.stderr == "loaderwatch: there is no file nowhere.py; name a script, or a module with -m\n"
