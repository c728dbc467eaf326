"""A run that is imported into ClickHouse: one commit of many blocks, which counts once all are stored."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from loaderwatch.server.store.clickhouse.claims import Fenced
from loaderwatch.server.store.clickhouse.database import Database
from loaderwatch.server.store.clickhouse.partitions import sizes
from loaderwatch.server.store.clickhouse.run import ClickHouseRun
from loaderwatch.server.store.protocol import Rest, RunExists, StoredRun, StoreError
from loaderwatch.server.store.rows import Arrays
from loaderwatch.server.store.sql.open_run import Event
from loaderwatch.server.store.sql.transfer import Arriving

_log: Final = logging.getLogger(__name__)


class TableArrival(Arriving):
    """An ``Arrival`` of a ClickHouse store. ``arrived`` gets the run's id and card once it counts, or may."""

    def __init__(
        self, database: Database, run: ClickHouseRun, arrived: Callable[[str, StoredRun | None], None]
    ) -> None:
        super().__init__(run)
        if run.newest_ns:
            raise RunExists(run.run_id)
        self._database = database
        self._open = run
        self._arrived = arrived

    def give_up(self) -> None:
        """Remove what was stored, unless it may be complete and count."""
        if self._open.may_count:
            self._arrived(self._open.run_id, None)
            return
        try:
            self._open.remove_arrived()
        except StoreError as error:
            _log.warning("what came of run %s stays where nobody sees it: %s", self._open.run_id, error)

    def _bring_in(self, tables: dict[str, Arrays], events: list[Event]) -> None:
        self._open.bring_in(tables, events)

    def _conclude(self, rest: Rest) -> None:
        try:
            self._open.conclude(rest)
        except Fenced:
            raise RunExists(self._open.run_id) from None
        card = None
        try:
            while self._open.roll():
                pass
            self._open.bytes = sizes(self._database).get(self._open.run_id, 0)
            card = self._open.keep_card()
        # The run is stored: charts read its rows, and its list entry is created again.
        except StoreError as error:
            _log.warning("run %s is there, and not summed up: %s", self._open.run_id, error)
        self._arrived(self._open.run_id, card)
