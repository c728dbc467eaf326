"""Starts other streamers: a standby of the active one, and one for each abandoned run."""

from __future__ import annotations

import logging
import subprocess
import time
from pathlib import Path
from typing import Final

from loaderwatch.core.config import Settings
from loaderwatch.core.detached_processes import spawn_detached
from loaderwatch.core.lock import STREAMER_LOCK, is_held
from loaderwatch.core.system import pid_in_use
from loaderwatch.core.wire import RUN_ID_PATTERN
from loaderwatch.streamer.election import standby_missing
from loaderwatch.streamer.outbox.files import SUFFIX, host_folder_name, ring_folder

log = logging.getLogger(__name__)

RESPAWN_NS: Final = 30_000_000_000
"""At most one standby starts within this time, so that a dying one is not restarted in a loop."""

FIRST_STREAMER_S: Final = 60.0
ADOPT_NS: Final = 60_000_000_000
UNATTENDED_S: Final = 1200.0
"""After this time without a write, another host's outbox has no streamer: the host is gone, or was a
container that returned under another name. It is twice the time that a streamer waits after its run."""


class Succession:
    """Keeps a standby in case this process dies, and starts streamers for runs without one."""

    def __init__(self, settings: Settings, run_id: str, run_name: str) -> None:
        self._settings = settings
        self._run_id = run_id
        self._run_name = run_name
        self._standby: subprocess.Popen[bytes] | None = None
        self._spawned_ns = -RESPAWN_NS
        self._adopted_ns = -ADOPT_NS

    def keep_standby(self, now_ns: int) -> None:
        """Start a standby if there is none."""
        if self._standby is not None and self._standby.poll() is not None:
            self._standby = None
        folder = self._settings.rings_dir / self._run_id
        if now_ns - self._spawned_ns >= RESPAWN_NS and standby_missing(folder):
            self._spawned_ns = now_ns
            self._standby = self._spawn(self._run_id, self._run_name, "--standby")

    def adopt_orphans(self, now_ns: int) -> None:
        """Start, now and then, a streamer for each run whose streamers died with the host or were killed."""
        if now_ns - self._adopted_ns < ADOPT_NS:
            return
        self._adopted_ns = now_ns
        here = host_folder_name()
        rings = self._settings.rings_dir
        left = {
            (path.parent.name, here)
            for pattern in ("main-*.ring", f"*{SUFFIX}")
            for path in rings.glob(f"*/{pattern}")
        }
        left = {(run_id, host) for run_id, host in left if RUN_ID_PATTERN.match(run_id)}
        for folder in self._settings.outbox_dir.glob("*/*"):
            if any(folder.glob(f"*{SUFFIX}")) and (folder.name == here or is_unattended(folder)):
                left.add((folder.parent.name, folder.name))
        for run_id, host in sorted(left - {(self._run_id, here)}):
            mode = ("--adopt",) if host == here else ("--adopt", "--left-by", host)
            if is_orphan(ring_folder(self._settings, run_id, host)):
                self._spawn(run_id, run_id, *mode)

    def _spawn(self, run_id: str, run_name: str, *mode: str) -> subprocess.Popen[bytes] | None:
        arguments = ("-m", "loaderwatch.streamer", "--run-id", run_id, "--run-name", run_name, *mode)
        try:
            return spawn_detached(arguments, self._settings.logs_dir / f"streamer-{run_id}.log")
        except OSError as error:
            log.warning("a second streamer cannot be started: %s", error)
            return None


def is_orphan(folder: Path) -> bool:
    """Whether a ring folder has no active streamer. A living process that just created it will start one."""
    lock = folder / STREAMER_LOCK
    if is_held(lock):
        return False
    try:
        if lock.exists() or time.time() - folder.stat().st_mtime > FIRST_STREAMER_S:
            return True
    except FileNotFoundError:
        return True
    pids = [path.stem.removeprefix("main-") for path in folder.glob("main-*.ring")]
    return not any(pid.isdecimal() and pid_in_use(int(pid)) for pid in pids)


def is_unattended(outbox: Path) -> bool:
    """Whether another host's outbox got no file for long. A server takes an envelope once of two senders."""
    try:
        newest = max(path.stat().st_mtime for path in outbox.iterdir())
    except (OSError, ValueError):  # the folder was removed or emptied at this moment
        return False
    return time.time() - newest > UNATTENDED_S
