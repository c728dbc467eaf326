"""Other streamers that the active one starts: its standby, and one for each run that was left behind."""

from __future__ import annotations

import logging
import subprocess
from typing import Final

from loaderwatch.core.config import Settings
from loaderwatch.streamer.election import is_orphan, standby_missing
from loaderwatch.streamer.shelf import SUFFIX
from loaderwatch.streamer.spawn import spawn_detached
from loaderwatch.streamer.state import host_folder_name

log = logging.getLogger(__name__)

RESPAWN_NS: Final = 30_000_000_000
"""At most one standby in this time: one that cannot live must not be started in a loop."""


class Succession:
    """Sees to it that somebody goes on when this process dies."""

    def __init__(self, settings: Settings, run_id: str, run_name: str) -> None:
        self._settings = settings
        self._run_id = run_id
        self._run_name = run_name
        self._standby: subprocess.Popen[bytes] | None = None
        self._spawned_ns = -RESPAWN_NS

    def keep_standby(self, now_ns: int) -> None:
        """Start a standby if nobody stands by."""
        if self._standby is not None and self._standby.poll() is not None:
            self._standby = None
        folder = self._settings.rings_dir / self._run_id
        if now_ns - self._spawned_ns >= RESPAWN_NS and standby_missing(folder):
            self._spawned_ns = now_ns
            self._standby = self._spawn(self._run_id, self._run_name, "--standby")

    def adopt_orphans(self) -> None:
        """Start a streamer for each run whose streamers died with the host, or were all killed, and left something."""
        outboxes = self._settings.outbox_dir.glob(f"*/{host_folder_name()}/*{SUFFIX}")
        left = {path.parent.parent.name for path in outboxes}
        for what in ("main-*.ring", f"*{SUFFIX}"):
            left |= {path.parent.name for path in self._settings.rings_dir.glob(f"*/{what}")}
        for run_id in sorted(left - {self._run_id}):
            folder = self._settings.rings_dir / run_id
            if not folder.is_dir() or is_orphan(folder):
                self._spawn(run_id, run_id, "--adopt")

    def _spawn(self, run_id: str, run_name: str, mode: str) -> subprocess.Popen[bytes] | None:
        arguments = ("-m", "loaderwatch.streamer", "--run-id", run_id, "--run-name", run_name, mode)
        try:
            return spawn_detached(arguments, self._settings.logs_dir / f"streamer-{run_id}.log")
        except OSError as error:
            log.warning("a second streamer cannot be started: %s", error)
            return None
