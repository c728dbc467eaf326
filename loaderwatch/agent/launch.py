"""Starts the streamer: detached, and no child of the training process."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import loaderwatch
from loaderwatch.agent.identity import RunName
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.config import Settings
from loaderwatch.core.lock import STREAMER_LOCK, is_held
from loaderwatch.core.private import opener, private_folder

NO_STREAMER: Final = "LOADERWATCH_NO_STREAMER"
"""Internal: set by tests that read the rings themselves."""

LOOK_AGAIN_NS: Final = 10_000_000_000
"""Time for a streamer to start and take its lock, before it is missed."""


def start_streamer(settings: Settings, run_id: str, run_name: str) -> None:
    """Start a streamer for this run; it exits by itself when another one already serves it.

    The shell in between goes at once, so the streamer belongs to init: no zombie here, and a wait for any child in
    the user's code never meets it.

    Raises:
        OSError: the log or the process cannot be made.
    """
    if os.environ.get(NO_STREAMER) or not sys.executable or os.name != "posix":
        return
    log_path = private_folder(settings.logs_dir) / f"streamer-{run_id}.log"
    with open(log_path, "ab", opener=opener) as log:
        shell = subprocess.Popen(
            [
                "/bin/sh",
                "-c",
                'umask 077; "$@" &',
                "sh",
                sys.executable,
                "-m",
                "loaderwatch.streamer",
                "--run-id",
                run_id,
                "--run-name",
                run_name,
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            close_fds=True,
            start_new_session=True,
            cwd=settings.logs_dir,  # -m puts it on the path first: no module of the user's may stand there
            env=_environment(settings),
        )
    shell.wait()


def keep_streamer(settings: Settings, run: RunName, looked_ns: int) -> int:
    """Start a streamer if there is none any more; returns when that was last looked at, given when it was before.

    A streamer that dies is replaced by its standby; when both were killed nobody else would notice. Called between
    epochs and as the process ends: there is time for asking a file lock, and for starting a process.
    """
    now = monotonic_ns()
    if now - looked_ns < LOOK_AGAIN_NS:
        return looked_ns
    if not is_held(settings.rings_dir / run.run_id / STREAMER_LOCK):
        with suppress(OSError):  # a full disk, too many processes: tried again with another epoch
            start_streamer(settings, run.run_id, run.name)
    return now


def _environment(settings: Settings) -> dict[str, str]:
    env = dict(os.environ)
    env["LOADERWATCH_DIR"] = str(settings.data_dir)
    for name, value in (
        ("LOADERWATCH_SERVER", settings.server),
        ("LOADERWATCH_TOKEN", settings.token),
    ):
        if value is not None:
            env[name] = value
    home = Path(loaderwatch.__file__).resolve().parent.parent
    if home.name not in ("site-packages", "dist-packages"):  # run from a checkout
        env["PYTHONPATH"] = os.pathsep.join(part for part in (env.get("PYTHONPATH"), str(home)) if part)
    for name in ("OMP_NUM_THREADS", "PYTHONFAULTHANDLER", "PYTHONPROFILEIMPORTTIME"):
        env.pop(name, None)
    return env
