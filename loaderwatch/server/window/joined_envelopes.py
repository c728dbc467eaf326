"""The rows of envelopes that arrived together, joined into one block per table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.facts import SpanInfo
from loaderwatch.core.wire import Envelope
from loaderwatch.detect.window import first_at
from loaderwatch.server.store.facts import RunFacts
from loaderwatch.server.window import recent_sums, totals
from loaderwatch.server.window.row_buffer import LAYOUTS, Block, block_of

SUMMED: Final = frozenset({*recent_sums.TABLES, *totals.TABLES})
"""The tables that are summed for all ranks."""


class Gathered:
    """The rows of at most one envelope per host, all of one attempt and with the same uncounted loaders."""

    def __init__(self) -> None:
        self.hosts: set[str] = set()
        self.since_ns = 0
        self.uncounted: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.said: list[SpanInfo] = []  # spans with the processes' own step counts
        self.of_hosts: list[tuple[str, Block]] = []
        self._tables: dict[tuple[str, bool], list[Mapping[str, bytes]]] = {}

    def fits(self, facts: RunFacts) -> bool:
        """Whether the gathered rows count in the same way under these facts."""
        return not self.hosts or (
            self.since_ns == facts.attempt_ns
            and (
                self.uncounted is facts.uncounted_loaders()
                or np.array_equal(self.uncounted, facts.uncounted_loaders())
            )
        )

    def take(self, envelope: Envelope, facts: RunFacts, *, keep: bool, count_as_said: bool) -> None:
        """Gather an envelope's rows after ``facts`` took it. Without ``keep``: only hosts and summed rows.

        ``count_as_said`` is true for its host's newest envelope.
        """
        self.hosts.add(envelope.host.name)
        self.since_ns, self.uncounted = facts.attempt_ns, facts.uncounted_loaders()
        for table, columns in envelope.tables.items():
            if table == "hosts":
                self.of_hosts.append((envelope.host.name, block_of(table, columns)))
            elif columns["rank"] and (keep or table in SUMMED):
                self._tables.setdefault((table, keep), []).append(columns)
        if count_as_said:
            self.said += [span for span in envelope.spans if span.worker < 0 and span.steps]

    def blocks(self) -> Iterator[tuple[str, Block, bool]]:
        """Yield each table with all its rows and whether to keep them. Parts are in order of first ranks."""
        for (table, keep), parts in self._tables.items():
            yield table, block_of(table, *sorted(parts, key=_first_rank)), keep


def _first_rank(columns: Mapping[str, bytes]) -> int:
    return int.from_bytes(columns["rank"][:8], "little", signed=True)


def by_rank(table: str, block: Block, since_ns: int) -> tuple[Block, NDArray[np.int64]]:
    """Return a block's rows at or after a time (ns UTC), grouped by rank, and each group's first row."""
    times = block[LAYOUTS[table].time]
    if len(times) and times.min() < since_ns:  # older rows are an earlier attempt's
        block = block[:, times >= since_ns]
    ranks = block[0]
    if not bool((ranks[1:] >= ranks[:-1]).all()):
        block = block[:, np.argsort(ranks, kind="stable")]
        ranks = block[0]
    if len(ranks) and ranks[0] < 0:  # a GPU that this run does not use has no rank
        block = block[:, first_at(ranks, 0) :]
        ranks = block[0]
    firsts = np.flatnonzero(ranks[1:] != ranks[:-1]) + 1
    return block, np.concatenate(([0], firsts)) if len(ranks) else firsts
