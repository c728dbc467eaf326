"""The streamer's launch: detached, with the right environment, no child of ours, with our stderr."""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from pathlib import Path

import pytest

from loaderwatch.agent.process import launch
from loaderwatch.agent.process.identity import RunName
from loaderwatch.agent.process.launch import keep_streamer, share_stderr, start_streamer
from loaderwatch.core import detached_processes
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.config import load_settings
from loaderwatch.core.environment_variables import NO_STREAMER
from loaderwatch.core.lock import STREAMER_LOCK
from loaderwatch.streamer.election import FileLock
from tests.fakes.streaming import wait_for
from tests.waiting import PATIENCE_S

SAY = """#!/bin/sh
exec {python} -c 'import json, os, sys
print(json.dumps([sys.argv[1:], os.getppid(), os.getcwd(), dict(os.environ)]))' "$@"
"""


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_streamer_is_nobodys_child(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text(SAY.format(python=sys.executable))
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("LOADERWATCH_SERVER", "http://127.0.0.1:9")
    settings = load_settings()
    before = children()
    start_streamer(settings, "run-1", "my run")
    log = settings.logs_dir / "streamer-run-1.log"
    deadline = time.monotonic() + PATIENCE_S
    while not log.read_text().endswith("\n") and time.monotonic() < deadline:
        time.sleep(0.05)
    arguments, parent, directory, environ = json.loads(log.read_text())
    assert arguments == ["-m", "loaderwatch.streamer", "--run-id", "run-1", "--run-name", "my run"]
    assert parent != os.getpid()
    assert directory == str(settings.logs_dir)
    assert environ["LOADERWATCH_SERVER"] == "http://127.0.0.1:9"
    assert environ["LOADERWATCH_DIR"] == str(data_dir)
    assert children() <= before


@pytest.mark.usefixtures("no_streamer")
def test_tests_can_do_without(data_dir: Path) -> None:
    start_streamer(load_settings(), "run-1", "my run")
    assert not data_dir.exists()
    assert NO_STREAMER.name in os.environ


def test_a_streamer_is_brought_when_both_were_killed(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody holds the streamer's lock; while somebody does, or shortly after a look, none is started."""
    python = tmp_path / "python"
    python.write_text(SAY.format(python=sys.executable))
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    settings = load_settings()
    run = RunName("run-1", "my run")
    folder = settings.rings_dir / run.run_id
    folder.mkdir(parents=True)
    now = monotonic_ns()
    assert keep_streamer(settings, run, now) == now
    lock = FileLock(folder / STREAMER_LOCK)
    assert lock.try_acquire()
    assert keep_streamer(settings, run, 0) >= now
    assert not settings.logs_dir.exists()
    lock.release()
    assert keep_streamer(settings, run, 0) >= now
    log = settings.logs_dir / "streamer-run-1.log"
    deadline = time.monotonic() + PATIENCE_S
    while not log.read_text().endswith("\n") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert json.loads(log.read_text())[0][-1] == "my run"


HANDED_ON = """#!/bin/sh
exec {python} -c 'import os, sys
fd = int(sys.argv[sys.argv.index("--job-stderr") + 1])
os.write(fd, b"streamed\\n")' "$@"
"""


@pytest.mark.parametrize("forks", [True, False])
def test_our_stderr_is_handed_on_where_it_cannot_be_opened(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: bool
) -> None:
    """macOS: by a descriptor's number, through the shell. Windows: as stdin, its only handle to pass on."""
    python = tmp_path / "python"
    python.write_text(HANDED_ON.format(python=sys.executable))
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(launch, "has_proc", lambda: False)
    monkeypatch.setattr(detached_processes, "HAS_FORK", forks)
    read, write = os.pipe()
    before = os.dup(2)
    os.dup2(write, 2)
    try:
        start_streamer(load_settings(), "run-1", "my run")
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(write)
    with os.fdopen(read, "rb") as file:
        assert file.read() == b"streamed\n"  # and its end: nothing of it is left open here
    assert data_dir.exists()
    assert (load_settings().logs_dir / "streamer-run-1.log").read_text() == ""


def test_a_streamer_that_was_started_without_a_shell_is_not_warned_of(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """Python warns of a process that was left running, in the user's terminal."""
    python = tmp_path / "python"
    python.write_text(SAY.format(python=sys.executable))
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(detached_processes, "HAS_FORK", False)
    start_streamer(load_settings(), "run-1", "my run")
    gc.collect()
    assert not [warning for warning in recwarn if issubclass(warning.category, ResourceWarning)]
    log = load_settings().logs_dir / "streamer-run-1.log"
    wait_for(lambda: log.read_text().endswith("\n"))
    arguments = json.loads(log.read_text())[0]
    assert "--job-stderr" not in arguments  # it opens it by itself
    assert data_dir.exists()


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
