"""A line of another process in the job's stderr file survives the job's own next line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from loaderwatch.agent.process.stderr import share_stderr


@pytest.mark.skipif(sys.platform == "win32", reason="notices are written on POSIX systems")
@pytest.mark.parametrize("shared", [True, False])
def test_lines_of_two_writers(tmp_path: Path, shared: bool) -> None:
    path = tmp_path / "job.log"
    job = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.write(job, b"epoch 0\n")
        if shared:
            share_stderr(job)
        other = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.write(other, b"loaderwatch: hung\n")
        os.close(other)
        os.write(job, b"epoch 1\n")
    finally:
        os.close(job)
    whole = b"epoch 0\nloaderwatch: hung\nepoch 1\n"
    assert (path.read_bytes() == whole) is shared  # the other case shows what it is for


def test_pipes_and_closed_descriptors_are_left_alone() -> None:
    reader, writer = os.pipe()
    share_stderr(writer)
    os.write(writer, b"x")
    assert os.read(reader, 1) == b"x"
    os.close(reader)
    os.close(writer)
    share_stderr(writer)
