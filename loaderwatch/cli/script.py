"""Runs a person's training script up to its first batch and collects its ranks' reports."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Final

from loaderwatch.agent.launcher.ondemand import python_path
from loaderwatch.core import environment_variables as variables
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.facts import ScriptReport
from loaderwatch.core.wire import decode_json
from loaderwatch.texts import in_own_language

_POLL_S: Final = 0.05
_OTHERS_S: Final = 20.0  # for the other ranks once one has reported, because they are equally far
_TAIL_LINES: Final = 15
_ABORT_S: Final = 2.0


class ScriptFailed(LoaderwatchError):
    """The script reached no training loader."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """The reports of a script's ranks, and the script's output."""

    reports: list[ScriptReport]
    output: str


def inspect_script(
    command: Sequence[str],
    ranks: int | None,
    timeout_s: float,
    *,
    environ: Mapping[str, str] = MappingProxyType({}),
    look: Callable[[Path], float] = lambda _: 0.0,
) -> Inspected:
    """Run ``[-m] SCRIPT ARGS`` up to its first training batch, on ``ranks`` ranks of this machine.

    All processes that it started have ended when this returns. With ``ranks`` None it runs as a plain script,
    without a launcher's environment. The script also gets ``environ``. During the wait, ``look`` gets the
    folder of the reports and returns how many seconds to wait beyond ``timeout_s``.

    Raises:
        ScriptFailed: no rank reported in time.
    """
    with tempfile.TemporaryDirectory(prefix="loaderwatch-doctor-") as scratch:
        folder = Path(scratch)
        leash_read, leash_write = os.pipe()
        log, port = folder / "output.txt", _free_port()
        children: list[subprocess.Popen[bytes]] = []
        try:
            with log.open("wb") as file:
                children += [
                    subprocess.Popen(
                        [sys.executable, "-u", "-m", "loaderwatch.agent.launcher.bootstrap", *command],
                        env={
                            **_environ(rank, ranks, port),
                            **environ,
                            variables.DOCTOR.name: f"{folder}:{leash_read}",
                            variables.DOCTOR_FOLDER.name: str(folder),
                        },
                        pass_fds=[leash_read],
                        stdin=subprocess.DEVNULL,
                        stdout=file,
                        stderr=file,
                        start_new_session=True,
                    )
                    for rank in range(ranks or 1)
                ]
            reports = _wait(children, folder, timeout_s, look)
            ended = all(child.poll() is not None for child in children)
            if not reports and not ended:
                _say_where(children)
        finally:
            os.close(leash_write)
            os.close(leash_read)
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            _kill_marked(folder)
        output = log.read_text(errors="replace")
    if not reports:
        command_line = " ".join(command)
        if ended:
            raise ScriptFailed(f"{command_line} ended before it iterated a training loader\n{tail(output)}")
        raise ScriptFailed(
            f"{command_line} did not come to a training loader within {timeout_s:g} s;"
            f" give it longer with --timeout\n{_stuck(output)}"
        )
    return Inspected(reports, output)


def _say_where(children: list[subprocess.Popen[bytes]]) -> None:
    """Make processes that take too long write their stacks: their faulthandler answers SIGABRT."""
    for child in children:
        child.send_signal(signal.SIGABRT)
    deadline = time.monotonic() + _ABORT_S
    while time.monotonic() < deadline and any(child.poll() is None for child in children):
        time.sleep(_POLL_S)


def _kill_marked(folder: Path) -> None:
    """Kill processes that the script started in other sessions; the folder's mark is in their environment."""
    mark = f"{variables.DOCTOR_FOLDER.name}={folder}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            continue  # not ours, or gone


def tail(output: str) -> str:
    """Return the last lines of a script's output, indented."""
    lines = output.rstrip().splitlines()[-_TAIL_LINES:]
    return "\n".join(f"  | {line}" for line in lines)


def _stuck(output: str) -> str:
    """Return the script's last output, and the lines at which faulthandler found it, without our own."""
    printed, _, fault = output.partition("Fatal Python error: Aborted")
    _, _, stack = fault.partition("Current thread ")
    lines = list(takewhile(_of_script, stack.splitlines()[1:]))
    if not lines:
        return tail(printed)
    where = "\n".join(lines[:_TAIL_LINES])
    return f"{tail(printed)}\n{in_own_language('script-stood-at')}\n{where}"


def _of_script(line: str) -> bool:
    return (
        bool(line.strip()) and "runpy" not in line and "loaderwatch/agent/launcher/bootstrap.py" not in line
    )


def _environ(rank: int, ranks: int | None, port: int) -> dict[str, str]:
    environ = {
        **os.environ,
        variables.DISABLE.name: "1",
        "PYTHONPATH": python_path(os.environ.get("PYTHONPATH")),
    }
    if ranks is not None:
        environ |= {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        if ranks > 1:
            environ.setdefault("OMP_NUM_THREADS", "1")  # like torchrun
    return environ


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(
    children: list[subprocess.Popen[bytes]], folder: Path, timeout_s: float, look: Callable[[Path], float]
) -> list[ScriptReport]:
    deadline = time.monotonic() + timeout_s
    first_at: float | None = None
    own = {child.pid for child in children}
    while True:
        reports = [decode_json(file.read_bytes(), ScriptReport) for file in sorted(folder.glob("*.json"))]
        # Ranks that the script starts by itself report how many they are.
        wanted = max([len(own), *(r.process.world_size for r in reports if r.process.pid not in own)])
        now = time.monotonic()
        if reports and first_at is None:
            first_at = now
        ended = all(child.poll() is not None for child in children)
        late = now > deadline + look(folder) or (first_at is not None and now > first_at + _OTHERS_S)
        if len(reports) >= wanted or late:
            return reports
        if ended:
            deadline = 0.0  # one more look
        time.sleep(_POLL_S)
