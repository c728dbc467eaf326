"""Recovery of this machine's runs whose processes were all killed: streamers send the data they left."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
from pathlib import Path
from typing import Final

from loaderwatch.core import environment_variables as variables
from loaderwatch.core.detached_processes import spawn_detached
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.files import NotPrivate, check_own
from loaderwatch.core.lock import STREAMER_LOCK, is_held
from loaderwatch.server.options import ServeOptions
from loaderwatch.server.store.protocol import Store

_log: Final = logging.getLogger(__name__)

LOOK_S: Final = 10.0


async def recover_runs(options: ServeOptions, store: Store) -> None:
    """Look for such runs forever, now and then; start a streamer for each, which ends once all is sent.

    Only runs that this server knows are sent; the next streamer here sends another server's runs there.
    """
    started: dict[str, subprocess.Popen[bytes]] = {}
    while True:
        await asyncio.sleep(LOOK_S)
        started = {run_id: process for run_id, process in started.items() if process.poll() is None}
        for run_id in await asyncio.to_thread(_unread_runs, options.rings_dir):
            if run_id in started:
                continue
            try:
                name = (await asyncio.to_thread(store.run, run_id)).name
                started[run_id] = await asyncio.to_thread(_start, options, run_id, name)
            except (LoaderwatchError, OSError) as error:  # unknown here, or no process can be started
                _log.debug("run %s is left as it lies: %s", run_id, error)


def _unread_runs(rings_dir: Path) -> set[str]:
    """Return the runs whose rings still exist and that had a streamer but have none now."""
    try:
        check_own(rings_dir)
    except NotPrivate:
        return set()
    folders = {path.parent for path in rings_dir.glob("*/main-*.ring")}
    locks = [folder / STREAMER_LOCK for folder in folders]
    return {lock.parent.name for lock in locks if lock.exists() and not is_held(lock)}


def _start(options: ServeOptions, run_id: str, name: str) -> subprocess.Popen[bytes]:
    _log.info("run %s lies unread in shared memory: starting a streamer for it", run_id)
    environ = {**variables.without_ours(os.environ), variables.DIR.name: str(options.data_dir)}
    arguments = ("-m", "loaderwatch.streamer", "--run-id", run_id, "--run-name", name, "--adopt")
    return spawn_detached(arguments, options.logs_dir / f"streamer-{run_id}.log", environ)
