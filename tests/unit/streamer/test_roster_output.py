"""The last lines of a job's output, read from the files that they went to."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from loaderwatch.core.environment_variables import KEPT_OUTPUT
from loaderwatch.core.facts import OutputFile
from loaderwatch.streamer.roster import MOST_CHARACTERS, last_lines


def named(path: Path, name: str = "stderr", size: int = 0) -> dict[str, str]:
    found = path.stat()
    file = OutputFile(name=name, path=str(path), device=found.st_dev, inode=found.st_ino, size=size)
    return {KEPT_OUTPUT.name: msgspec.json.encode([file]).decode()}


def test_the_last_twenty_of_what_the_job_wrote(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("of another job\n" + "".join(f"line {n}\n" for n in range(100)) + "Traceback\n\n")
    (lines,) = last_lines(named(log, size=15)).values()
    assert lines == [*(f"line {n}" for n in range(81, 100)), "Traceback"]
    log.write_text("of another job\nonly this\n")
    assert last_lines(named(log, size=15)) == {"stderr": ["only this"]}


def test_what_a_terminal_would_show_without_what_moves_its_cursor(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b" 10%\r 50%\r100%\r\nloss \x1b[31mnan\x1b[0m \xff\n" + b"x" * 100_000 + b"\n")
    (lines,) = last_lines(named(log)).values()
    assert lines == ["x" * MOST_CHARACTERS]  # what is further back than 64 kB is not read
    log.write_bytes(b" 10%\r 50%\r100%\r\nloss \x1b[31mnan\x1b[0m \xff\n")
    assert last_lines(named(log)) == {"stderr": ["100%", "loss [31mnan[0m \N{REPLACEMENT CHARACTER}"]}


@pytest.mark.parametrize("becomes", ["gone", "another", "pipe"])
def test_another_file_of_that_name_is_not_read(tmp_path: Path, becomes: str) -> None:
    log = tmp_path / "log"
    log.write_text("the job's\n")
    environ = named(log)
    log.rename(tmp_path / "rotated")
    if becomes == "another":
        log.write_text("somebody else's\n")
    elif becomes == "pipe":
        os.mkfifo(log)
    assert last_lines(environ) == {}


@pytest.mark.parametrize("said", ["", "[", "{}", '[{"name": 1}]'])
def test_what_names_no_file_gives_nothing(said: str) -> None:
    assert last_lines({KEPT_OUTPUT.name: said}) == {}
    assert last_lines({}) == {}
