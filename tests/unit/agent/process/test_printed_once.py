"""Lines that all processes of a job would print, and one of them does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loaderwatch.agent.guard import guard
from loaderwatch.agent.process.printed_once import KEPT_S, say_once
from loaderwatch.core.config import load_settings
from loaderwatch.core.environment_variables import JOB
from tests.waiting import PATIENCE_S

SAY = "from loaderwatch.agent.process.printed_once import say_once; say_once('cannot do it')"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("LOADERWATCH_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv(
        JOB.name, raising=False
    )  # of a command that a test before this one ran in this process
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place = load_settings().rings_dir
    yield place
    shutil.rmtree(place, ignore_errors=True)


def said(**environ: str) -> str:
    """What three processes print that run at the same time."""
    many = [
        subprocess.Popen(
            [sys.executable, "-c", SAY], stderr=subprocess.PIPE, text=True, env={**os.environ, **environ}
        )
        for _ in range(3)
    ]
    return "".join(each.communicate(timeout=PATIENCE_S)[1] for each in many)


def test_one_process_of_a_job_says_it_and_so_does_the_next_job() -> None:
    line = "loaderwatch: cannot do it\n"
    assert said(**{JOB.name: "one"}) == line
    assert said(**{JOB.name: "one"}) == ""
    assert said(**{JOB.name: "two"}) == line


def test_ranks_of_one_launcher_are_one_job() -> None:
    ranks = {
        "WORLD_SIZE": "3",
        "LOCAL_WORLD_SIZE": "3",
        "RANK": "0",
        "MASTER_ADDR": "here",
        "MASTER_PORT": "1",
    }
    assert said(**ranks).count("cannot do it") == 1


MEETS = {  # one node of several, by torchrun with the rendezvous that it has without options
    "WORLD_SIZE": "4",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "here",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "0",
}
LAUNCHER = f"""
import os, subprocess, sys
ranks = [
    subprocess.Popen(
        [sys.executable, "-c", sys.argv[1]],
        env={{**os.environ, **{MEETS!r}, "RANK": rank, "LOCAL_RANK": rank}},
    )
    for rank in "01"
]
sys.exit(sum(rank.wait() for rank in ranks))
"""
SAY_IN_CHILDREN = f"""
import multiprocessing
def say_it():
    {SAY}
if __name__ == "__main__":
    say_it()
    for _ in range(2):
        child = multiprocessing.get_context("fork").Process(target=say_it)
        child.start()
        child.join()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says who started whom")
@pytest.mark.parametrize("script", [SAY, SAY_IN_CHILDREN])
def test_the_next_job_that_meets_at_the_same_address_says_it_too(script: str) -> None:
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", LAUNCHER, script], capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == "loaderwatch: cannot do it\n"


def test_other_lines_are_said_and_old_marks_go(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(JOB.name, "mine")
    say_once("one")
    (mark,) = place.glob("said-*")
    long_ago = time.time() - KEPT_S - 1
    os.utime(mark, (long_ago, long_ago))
    say_once("two")
    say_once("two")
    assert capsys.readouterr().err == "loaderwatch: one\nloaderwatch: two\n"
    assert not mark.exists()


@pytest.mark.parametrize("trap", ["a link", "a link that leads nowhere", "a file"])
def test_a_folder_that_is_not_ours_takes_no_mark(
    place: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    trap: str,
) -> None:
    monkeypatch.setenv(JOB.name, "mine")
    place.parent.mkdir(parents=True, exist_ok=True)
    if trap == "a file":
        place.touch()
    else:
        place.symlink_to(tmp_path if trap == "a link" else tmp_path / "nowhere")
    try:
        say_once("one")
        say_once("one")
        assert capsys.readouterr().err.count("one") == 1, "the folder for temporary files takes the mark"
    finally:
        place.unlink()


def test_a_fault_on_the_way_costs_no_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(JOB.name, "mine")
    monkeypatch.setenv("LOADERWATCH_DIR", "~nobody-of-this-name/data")
    say_once("one")
    assert capsys.readouterr().err == "loaderwatch: one\n"
    guard.reset()
