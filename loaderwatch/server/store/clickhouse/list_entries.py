"""Cards: the list entries of runs. The server that owns a run stores its card from time to time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Final

from loaderwatch.core.wire import decode_json
from loaderwatch.server.store.clickhouse.database import Database
from loaderwatch.server.store.clickhouse.snapshot import stored_runs, text
from loaderwatch.server.store.protocol import StoredRun

_AT_ONCE: Final = 200


class Cards:
    """The cards of all runs. ``lock`` guards ``known``, and is not held during queries."""

    def __init__(self, database: Database, lock: threading.Lock, owns: Callable[[str], bool]) -> None:
        self._database = database
        self._lock = lock
        self._owns = owns
        self._heard: dict[str, int] = {}  # when runs last got envelopes, as of the last ``read``
        self._numbers: dict[str, int] = {}  # the number of each card that was read
        self.known: dict[str, StoredRun | None] = {}
        """Every stored run. None: the run is ours, and its newest commit is newer than its card."""

    def read(self, ours: Collection[str] = ()) -> None:
        """Read all cards, except those of runs in ``ours``, which this process writes and knows best."""
        stored_cards = _read(self._database, "")
        heard_rows = self._database.rows(
            f"SELECT run::String AS run, max(received_ns) AS received FROM {self._database.name}.acked "
            "GROUP BY run"
        )
        cards: dict[str, StoredRun | None] = {}
        for run, heard_ns in heard_rows:
            run_id = run.decode()
            _, card = stored_cards.get(run_id, (0, None))
            is_current = card is not None and (card.received_ns >= heard_ns or not self._owns(run_id))
            cards[run_id] = card if is_current else None
        with self._lock:
            self.known = cards | {run_id: self.known[run_id] for run_id in ours if run_id in self.known}
            self._heard = {run.decode(): int(heard_ns) for run, heard_ns in heard_rows}
            self._numbers = {run_id: number for run_id, (number, _) in stored_cards.items()}

    def read_others(self, ours: Collection[str]) -> None:
        """Read cards that other servers changed, and all runs: one that began elsewhere may be ours now."""
        stored_ids = stored_runs(self._database)
        rows = self._database.rows(
            f"SELECT run::String AS run, max(commit) AS number FROM {self._database.name}.cards GROUP BY run"
        )
        numbers = {run.decode(): int(number) for run, number in rows}
        changed = [run_id for run_id, number in numbers.items() if self._numbers.get(run_id) != number]
        for begin in range(0, len(changed), _AT_ONCE):
            names = ", ".join(map(text, changed[begin : begin + _AT_ONCE]))
            cards = _read(self._database, f" WHERE run IN ({names})")
            with self._lock:
                for run_id, (number, card) in cards.items():
                    self._numbers[run_id] = number
                    if not self._owns(run_id):
                        self.known[run_id] = card
        with self._lock:
            for run_id in self.known.keys() - stored_ids - set(ours):
                if not self._owns(run_id):
                    del self.known[run_id]  # deleted
            for run_id in stored_ids - self.known.keys():
                self.known[run_id] = None

    def heard_since(self, since_ns: int) -> dict[str, StoredRun | None]:
        """Return this server's runs that got envelopes since then."""
        with self._lock:
            return {
                run_id: card
                for run_id, card in self.known.items()
                if (self._heard.get(run_id, since_ns) if card is None else card.received_ns) >= since_ns
                and self._owns(run_id)
            }


def _read(database: Database, where: str) -> dict[str, tuple[int, StoredRun]]:
    """Return cards by run, each with its number, which grows with every newer card of the run."""
    rows = database.rows(f"SELECT run::String AS run, commit, card FROM {database.name}.cards FINAL{where}")
    return {run.decode(): (int(number), decode_json(card, StoredRun)) for run, number, card in rows}
