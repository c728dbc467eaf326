"""Retention: deletes runs without news for the number of days that ``serve --retain-days`` gives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from loaderwatch.core.clock import SteadyClock
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.server.store.protocol import Store, UnknownRun

_log: Final = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 3600.0
"""Seconds between two looks for old runs. Ages are given in days, so an extra hour does not matter."""
FIRST_LOOK_S: Final = 600.0
"""Seconds before the first look. The clock of a machine that was just switched on may be wrong at first."""
SPARED_S: Final = 3600.0
"""A run with news within this many seconds stays, whatever the limit is."""
_DAY_S: Final = 86_400.0


async def retain(store: Store, max_age_days: float | None, deleted: Callable[[str], None]) -> None:
    """Delete old runs once an hour, forever; call ``deleted`` with the id of each. None: all runs stay."""
    if max_age_days is None:
        return
    clock = SteadyClock()  # a clock set a month ahead must not cost a month of runs
    await asyncio.sleep(FIRST_LOOK_S)
    while True:
        try:
            for run_id in await asyncio.to_thread(delete_old_runs, store, max_age_days, clock.now_ns()):
                _log.info("run %s is older than %g days: deleted", run_id, max_age_days)
                deleted(run_id)
        except (LoaderwatchError, OSError) as error:
            _log.warning("retention: %s", error)
        await asyncio.sleep(LOOK_EVERY_S)


def delete_old_runs(store: Store, max_age_days: float, now_ns: int) -> list[str]:
    """Delete this server's runs that are not pinned and had no news for that long; return their ids."""
    deleted = []
    for run in sorted(store.runs(), key=lambda run: run.received_ns):
        age_s = (now_ns - run.received_ns) / 1e9
        if run.labels.pinned or age_s < SPARED_S or age_s <= max_age_days * _DAY_S:
            continue
        if not store.owns(run.run_id):
            continue
        try:
            store.delete(run.run_id)
        except UnknownRun:
            continue  # it was deleted meanwhile
        deleted.append(run.run_id)
    return deleted
