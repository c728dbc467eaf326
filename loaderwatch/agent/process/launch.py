"""Starts the streamer, detached and not a child of the training process, and shares our stderr with it."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from loaderwatch.agent.guard import has_stderr
from loaderwatch.agent.process.identity import RunName
from loaderwatch.core import environment_variables as variables
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.config import Settings
from loaderwatch.core.detached_processes import spawn_orphan
from loaderwatch.core.files import private_folder
from loaderwatch.core.lock import STREAMER_LOCK, is_held
from loaderwatch.core.system import has_proc

try:
    import fcntl
except ImportError:  # Windows: there, the streamer writes to our own descriptor
    fcntl = None  # type: ignore[assignment]

JOB_STDERR: Final = "--job-stderr"
"""The streamer's option for a descriptor that is the job's stderr."""

LOOK_AGAIN_NS: Final = 10_000_000_000
"""How long a streamer may take to start and take its lock before another one is started, in nanoseconds."""


def start_streamer(settings: Settings, run_id: str, run_name: str) -> None:
    """Start a streamer for this run; it exits by itself if another one already serves the run.

    Where the streamer could not open a process's stderr by itself, it inherits ours.

    Raises:
        NotPrivate: a folder of the data directory belongs to somebody else or is writable by others.
        OSError: the log cannot be written or the process cannot be started.
    """
    if variables.NO_STREAMER.read() or not sys.executable:
        return
    private_folder(settings.logs_dir)
    settings.check_own()  # the new folder is ours, unless somebody else made it first
    log_path = settings.logs_dir / f"streamer-{run_id}.log"
    arguments = ("-m", "loaderwatch.streamer", "--run-id", run_id, "--run-name", run_name)
    with _stderr_to_hand_on() as stderr:
        handed_on = None if stderr is None else (JOB_STDERR, stderr)
        spawn_orphan(arguments, log_path, _environment(settings), handed_on)


@contextmanager
def _stderr_to_hand_on() -> Iterator[int | None]:
    """Yield a duplicate of our stderr; None where the streamer can open it by itself, or there is none."""
    if has_proc() or not has_stderr():
        yield None
        return
    try:
        stderr = os.dup(2)
    except OSError:  # the script has closed it
        yield None
        return
    try:
        yield stderr
    finally:
        os.close(stderr)


def share_stderr(fd: int = 2) -> None:
    """Make a stderr that is a plain file (``2> log``) append, so the streamer's lines are not overwritten.

    The streamer opens the file again to write an alert. Without append mode, the job would go on at its own
    position and overwrite that line. The job's own writes go to the end of the file as before.
    """
    if fcntl is None:
        return
    try:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            flags = fcntl.fcntl(fd, fcntl.F_GETFL)
            if not flags & os.O_APPEND:
                fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_APPEND)
    except OSError:
        return  # stderr is closed


def keep_streamer(settings: Settings, run: RunName, looked_ns: int) -> int:
    """Start a streamer if none is alive; ``looked_ns`` and the result are the times of the last check.

    A standby replaces a streamer that dies. Only if both were killed is this check needed. It runs between
    epochs and as the process ends, when there is time to test a file lock and to start a process.
    """
    now = monotonic_ns()
    if now - looked_ns < LOOK_AGAIN_NS:
        return looked_ns
    if not is_held(settings.rings_dir / run.run_id / STREAMER_LOCK):
        # The disk may be full, or there may be too many processes. The next epoch tries again.
        with suppress(OSError):
            start_streamer(settings, run.run_id, run.name)
    return now


def _environment(settings: Settings) -> dict[str, str]:
    env = dict(os.environ)
    env[variables.DIR.name] = str(settings.data_dir)
    for variable, value in ((variables.SERVER, settings.server), (variables.TOKEN, settings.token)):
        if value is not None:
            env[variable.name] = value
    home = Path(__file__).resolve().parents[3]
    if home.name not in ("site-packages", "dist-packages"):  # loaderwatch runs from a checkout
        env["PYTHONPATH"] = os.pathsep.join(part for part in (env.get("PYTHONPATH"), str(home)) if part)
    for name in ("OMP_NUM_THREADS", "PYTHONFAULTHANDLER", "PYTHONPROFILEIMPORTTIME"):
        env.pop(name, None)
    return env
