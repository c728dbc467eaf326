"""Real streamers over real rings, each test in its own data directory, all processes gone at the end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from loaderwatch.core.config import load_settings
from tests.fakes.receiver import TOKEN
from tests.waiting import PATIENCE_S, wait_until

STREAMER = "loaderwatch.streamer"
WRITER = Path(__file__).with_name("ring_writer.py")


class Streaming:
    """``with Streaming(data_dir, url) as it``: starts writers and streamers, ends all in the directory."""

    def __init__(self, data_dir: Path, server: str | None, run_id: str = "run1", **environ: str) -> None:
        self.run_id = run_id
        self.data_dir = data_dir
        self.environ = {
            **os.environ,
            "LOADERWATCH_DIR": str(data_dir),
            "LOADERWATCH_TOKEN": TOKEN,
            **environ,
        }
        if server is not None:
            self.environ["LOADERWATCH_SERVER"] = server
        self.settings = load_settings(self.environ)
        self.folder = self.settings.rings_dir / run_id
        self._children: list[subprocess.Popen[Any]] = []

    def __enter__(self) -> Streaming:
        return self

    def __exit__(self, *args: object) -> None:
        end_processes(self.data_dir)
        for child in self._children:
            kill(child.pid)
            child.wait(PATIENCE_S)
            for pipe in (child.stdout, child.stderr):
                if pipe is not None:
                    pipe.close()

    def write(self, **want: Any) -> subprocess.Popen[str]:
        """A process that writes rings; returns once its rings are there."""
        want = {"folder": str(self.folder), "steps": -1, **want}
        want.setdefault("period_s", 0.01 if want["steps"] < 0 else 0)
        child = subprocess.Popen(
            [sys.executable, str(WRITER), json.dumps(want)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environ,
            start_new_session=True,
        )
        self._children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline().strip() == str(child.pid)
        return child

    def stream(self, *more: str, name: str = "train.py") -> subprocess.Popen[bytes]:
        """A streamer."""
        log_path = self.data_dir / "streamer.log"
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with log_path.open("ab") as log:
            child = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "loaderwatch.streamer",
                    "--run-id",
                    self.run_id,
                    "--run-name",
                    name,
                    *more,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environ,
                start_new_session=True,
            )
        self._children.append(child)
        return child

    def log(self) -> str:
        """What the streamers said."""
        logs = [self.data_dir / "streamer.log", *self.settings.logs_dir.glob("streamer-*.log")]
        return "".join(path.read_text() for path in logs if path.exists())

    def pids(self, of: str = "") -> list[int]:
        """Living processes that use this data directory; with ``of`` in their command line."""
        return [process.pid for process in processes_of(self.data_dir, of)]

    def streamer_pids(self) -> list[int]:
        """Living streamers of this test."""
        return self.pids(STREAMER)

    def end_streamers(self) -> None:
        """Kill them all, as a host that goes down does."""
        end_processes(self.data_dir, STREAMER)


def end_processes(data_dir: Path, of: str = "") -> None:
    """End the processes that a training leaves behind: its streamers, and the server that it started.

    A standby takes over from a killed streamer, so this repeats until no process is left. A server that was
    started apart on this directory must end first, because it starts a streamer for each run that has none
    (server/app.py). With ``of``, only processes with this text in their command line end.
    """
    for _ in range(20):
        left = processes_of(data_dir, of)
        if not left:
            return
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=PATIENCE_S)
    raise AssertionError(f"{left} of {data_dir} come again and again")


def processes_of(data_dir: Path, of: str = "") -> set[psutil.Process]:
    """Living processes with this LOADERWATCH_DIR but the caller, and with ``of`` in their command line."""
    return {process for process in psutil.process_iter() if _is_of(process, data_dir, of)}


def _is_of(process: psutil.Process, data_dir: Path, of: str) -> bool:
    try:
        over = process.status() == psutil.STATUS_ZOMBIE  # only its parent can clear it away
        mine: str | None = process.environ().get("LOADERWATCH_DIR")
        called = of in " ".join(process.cmdline())
        return not over and mine == str(data_dir) and called and process.pid != os.getpid()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False  # gone by itself, or somebody else's


def kill(pid: int) -> None:
    """SIGKILL, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_group(pid: int) -> None:
    """SIGKILL to the process group, if there is anybody left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def wait_for(condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
    """Wait until it holds, or fail."""
    wait_until("what was awaited", condition, timeout_s)
