"""The window builder: it keeps the recent past of a run in memory, takes envelopes in and gives immutable windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.facts import GpuState, SpanInfo
from loaderwatch.core.records import TIME_COLUMN, WHOLE_TABLES
from loaderwatch.core.wire import Envelope
from loaderwatch.detect.window import LEARNED_FROM, WINDOW_S, HostWindow, RankWindow, RunWindow, first_at
from loaderwatch.server.store.facts import RunFacts
from loaderwatch.server.store.protocol import PathTotals, RankTotals, StoredRun
from loaderwatch.server.store.sequence_set import SequenceSet
from loaderwatch.server.window.courses import Courses
from loaderwatch.server.window.kept_stacks import KeptStacks
from loaderwatch.server.window.row_buffer import LAYOUTS, NO_ROWS, Block, RowBuffer, block_of, block_of_arrays
from loaderwatch.server.window.totals import RunTotals, Totals

_MANY_ROWS: Final = 1_000_000
"""Most rows of a table over all ranks, some 150 MB. A thousand ranks at ten steps a second get the last 100 s."""
_NO_TABLES: Final = {name: rows for name, rows in NO_ROWS.items() if name != "hosts"}
_WHOLE_ROWS: Final = 10_000
_KEEP_NS: Final = int((WINDOW_S + 15) * 1e9)
"""How long rows are kept. It is longer than the window, because a host's clock may be ahead of the others'."""
_WINDOW_NS: Final = int(WINDOW_S * 1e9)
_HOST_ROWS: Final = 2_000


@dataclass
class _Rank:
    buffers: dict[str, RowBuffer] = field(default_factory=dict)
    stacks: KeptStacks = field(default_factory=KeptStacks)
    span: SpanInfo | None = None
    workers: list[SpanInfo] = field(default_factory=list)
    last_workers: list[SpanInfo] = field(default_factory=list)  # the newest spans of workers


@dataclass
class _Host:
    buffer: RowBuffer
    made_ns: int = 0
    ranks: set[int] = field(default_factory=set)  # the ranks of its newest spans
    gpu_states: list[GpuState] = field(default_factory=list)
    looked_ns: int = 0  # when these were


class _Gathered:
    """The rows of one envelope of each of several hosts, all of one attempt and with the same loaders uncounted."""

    def __init__(self) -> None:
        self.hosts: set[str] = set()
        self.since_ns = 0
        self.uncounted: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.said: list[SpanInfo] = []  # with the number of steps that the process counts itself
        self.of_hosts: list[tuple[str, Block]] = []
        self._tables: dict[str, list[Mapping[str, bytes]]] = {}

    def fits(self, facts: RunFacts) -> bool:
        """Whether what was gathered counts in the same way by these facts."""
        return not self.hosts or (
            self.since_ns == facts.attempt_ns
            and (
                self.uncounted is facts.uncounted_loaders()
                or np.array_equal(self.uncounted, facts.uncounted_loaders())
            )
        )

    def take(self, envelope: Envelope, facts: RunFacts, *, count_as_said: bool) -> None:
        """Gather the rows of an envelope that these facts have taken; ``count_as_said`` where it is its host's newest."""
        self.hosts.add(envelope.host.name)
        self.since_ns, self.uncounted = facts.attempt_ns, facts.uncounted_loaders()
        for table, columns in envelope.tables.items():
            if table == "hosts":
                self.of_hosts.append((envelope.host.name, block_of(table, columns)))
            elif columns["rank"]:
                self._tables.setdefault(table, []).append(columns)
        if count_as_said:
            self.said += [span for span in envelope.spans if span.worker < 0 and span.steps]

    def blocks(self) -> Iterator[tuple[str, Block]]:
        """Yield each table with all of its rows, those of lower ranks first as far as hosts hold neighbours."""
        for table, parts in self._tables.items():
            yield table, block_of(table, *sorted(parts, key=_first_rank))


def _first_rank(columns: Mapping[str, bytes]) -> int:
    return int.from_bytes(columns["rank"][:8], "little", signed=True)


class WindowBuilder:
    """Gathers the envelopes of one run. It is not thread-safe, but its windows may be read in any thread."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.facts = RunFacts()
        self._ranks: dict[int, _Rank] = {}
        self._hosts: dict[str, _Host] = {}
        self._courses = Courses()
        self._totals = Totals()
        self._gathered = _Gathered()
        self._seen: dict[str, SequenceSet] = {}
        self._first_ns = 0
        self._lost_records = 0

    # -- in

    def add(self, envelope: Envelope) -> None:
        """Take in an envelope, in any order; one that was seen before changes nothing."""
        self.add_all((envelope,))

    def add_all(self, envelopes: Iterable[Envelope]) -> None:
        """Take in envelopes, each as it is asked for: those behind one that raises an error are not asked for."""
        for envelope in envelopes:
            seen = self._seen.setdefault(envelope.stream, SequenceSet())
            if envelope.seq in seen:
                continue
            seen.add(envelope.seq)
            if envelope.host.name in self._gathered.hosts:
                self._take_gathered()
            self.add_facts(envelope)
            newest = envelope.made_ns == self._host(envelope.host.name).made_ns
            self._gathered.take(envelope, self.facts, count_as_said=newest)
        self._take_gathered()

    def _take_gathered(self) -> None:
        """Take in the rows of the envelopes that came since the last time, as one block for each table."""
        gathered, self._gathered = self._gathered, _Gathered()
        for table, block in gathered.blocks():
            self._add_block(table, block, gathered.since_ns, gathered.uncounted)
        for host, block in gathered.of_hosts:
            self.add_rows("hosts", block, host)
        for span in gathered.said:
            self._totals.count_as_said(span.rank, span.steps)

    def add_facts(self, envelope: Envelope, *, count: bool = True) -> None:
        """Take in everything of an envelope except its rows."""
        attempt = self.facts.attempt
        self.facts.take(envelope)
        if not self._gathered.fits(self.facts):
            self._take_gathered()
        if self.facts.attempt != attempt:
            self._begin_again()
        self._first_ns = min(self._first_ns or envelope.made_ns, envelope.made_ns)
        host = self._host(envelope.host.name)
        if envelope.made_ns >= host.made_ns:
            host.made_ns = envelope.made_ns
            self._take_spans(host, envelope.spans)
        if envelope.gpu_states and envelope.made_ns >= host.looked_ns:
            host.gpu_states, host.looked_ns = envelope.gpu_states, envelope.made_ns
        for stack in envelope.stacks:
            self._rank(stack.rank).stacks.take(stack)
        if count:
            self._lost_records += sum(loss.count for loss in envelope.losses)

    def add_rows(self, table: str, block: Block, host: str, *, count: bool = True) -> None:
        """Take in rows of a table. With ``count`` false they are in the totals already."""
        if table != "hosts":
            self._add_block(table, block, self.facts.attempt_ns, self.facts.uncounted_loaders(), count=count)
        elif block.shape[1]:
            self._host(host).buffer.extend(block)

    def _add_block(
        self,
        table: str,
        block: Block,
        since_ns: int,
        uncounted: NDArray[np.int64],
        *,
        count: bool = True,
    ) -> None:
        times = block[LAYOUTS[table].time]
        if len(times) and times.min() < since_ns:  # older rows are an earlier attempt's
            block = block[:, times >= since_ns]
        if not block.shape[1]:
            return
        ranks = block[0]
        if not bool((ranks[1:] >= ranks[:-1]).all()):
            block = block[:, np.argsort(ranks, kind="stable")]
            ranks = block[0]
        if ranks[0] < 0:  # a GPU that nobody here uses has no rank
            block = block[:, first_at(ranks, 0) :]
            ranks = block[0]
            if not len(ranks):
                return
        firsts = np.flatnonzero(np.concatenate(([True], ranks[1:] != ranks[:-1])))
        self._totals.take(table, block, uncounted, count=count)
        times = block[LAYOUTS[table].time]
        back = np.flatnonzero(times[1:] < times[:-1]) + 1
        ordered = bool(
            np.isin(back, firsts).all()
        )  # a rank's rows may begin before those of the one in front end
        begins, numbers = firsts.tolist(), ranks[firsts].tolist()
        limit = 0
        for number, first, last in zip(numbers, begins, [*begins[1:], len(ranks)], strict=True):
            buffers = self._rank(number).buffers
            buffer = buffers.get(table)
            if buffer is None:
                limit = limit or self._limit(table)
                keep_ns = None if table in WHOLE_TABLES else _KEEP_NS
                buffer = buffers[table] = RowBuffer(table, limit, keep_ns)
            buffer.extend(block[:, first:last], ordered=ordered)

    def seed(
        self,
        run: StoredRun,
        totals: Mapping[int, RankTotals],
        sequences: Mapping[str, Iterable[tuple[int, int]]],
        path: PathTotals | None = None,
    ) -> None:
        """Begin with the facts and totals of a store; its rows are then added with ``count=False``."""
        self.facts = RunFacts(
            name=run.name,
            hosts={host.name: host for host in run.hosts},
            gpus=dict(run.gpus),
            processes={process.rank: process for process in run.processes},
            rank_hosts=dict(run.rank_hosts),
            attempt=run.attempt,
            attempt_ns=run.attempt_ns,
            earlier=list(run.earlier),
        )
        self._first_ns = run.started_ns
        self._lost_records = run.lost_records
        for rank in totals:
            self._rank(rank)
        self._totals.seed(totals, path)
        for stream, intervals in sequences.items():
            seen = self._seen.setdefault(stream, SequenceSet())
            for low, high in intervals:
                seen.add(low, high)

    def _begin_again(self) -> None:
        """Begin a new attempt: rows, spans and totals of the attempt before are dropped."""
        began_ns = self._first_ns = self.facts.attempt_ns
        earlier, self._ranks, self._courses = self._ranks, {}, Courses()
        self._totals = Totals()
        self._lost_records = 0
        for host in self._hosts.values():
            host.ranks = set()
        for rank in earlier.values():
            for table, buffer in rank.buffers.items():
                rows = buffer.rows(began_ns)
                if len(rows[TIME_COLUMN[table]]):  # these rows came before their process was described
                    self.add_rows(table, block_of_arrays(table, rows), "")

    def _rank(self, rank: int) -> _Rank:
        found = self._ranks.get(rank)
        if found is None:
            found = self._ranks[rank] = _Rank()
        return found

    def _host(self, name: str) -> _Host:
        found = self._hosts.get(name)
        if found is None:
            found = self._hosts[name] = _Host(RowBuffer("hosts", _HOST_ROWS))
        return found

    def _limit(self, table: str) -> int:
        if table in WHOLE_TABLES:
            return _WHOLE_ROWS
        return min(20_000, max(1_000, _MANY_ROWS // max(1, self.facts.world_size)))

    def _take_spans(self, host: _Host, spans: list[SpanInfo]) -> None:
        for number in host.ranks:
            rank = self._rank(number)
            rank.span, rank.workers = None, []
        host.ranks = {span.rank for span in spans}
        for span in spans:
            rank = self._rank(span.rank)
            if span.worker < 0:
                rank.span = span
            else:
                rank.workers.append(span)
        for number in host.ranks:
            rank = self._rank(number)
            rank.last_workers = rank.workers or rank.last_workers

    def totals(self) -> RunTotals:
        """Return sums since the run began, as far as this builder has seen it or ``seed`` gave them."""
        return self._totals.so_far(self._ranks, self._lost_records)

    # -- out

    def held_bytes(self) -> int:
        """Return the memory that rows and stacks take."""
        hosts = sum(host.buffer.held_bytes for host in self._hosts.values())
        ranks = sum(buffer.held_bytes for rank in self._ranks.values() for buffer in rank.buffers.values())
        return hosts + ranks + sum(rank.stacks.held_bytes for rank in self._ranks.values())

    def window(self, now_ns: int | None = None) -> RunWindow:
        """Return the last ``WINDOW_S`` seconds; ``now_ns`` (UTC) defaults to the newest envelope's ``made_ns``."""
        if now_ns is None:
            now_ns = max((host.made_ns for host in self._hosts.values()), default=0)
        began_ns = self.facts.attempt_ns
        after_ns = max(now_ns - _WINDOW_NS, began_ns)
        ranks: dict[int, RankWindow] = {}
        reach_ns = self._first_ns
        # Rows that came before their process was described wait for that.
        for number, process in sorted(self.facts.processes.items()):
            rank = self._rank(number)
            host = self.facts.rank_hosts[number]
            tables = dict(_NO_TABLES)
            for name, buffer in rank.buffers.items():
                tables[name] = buffer.rows((began_ns or None) if name in WHOLE_TABLES else after_ns)
            learned = {name: rank.buffers[name] for name in LEARNED_FROM if name in rank.buffers}
            if (steps := rank.buffers.get("steps")) is not None and steps.dropped:
                reach_ns = max(reach_ns, steps.oldest_ns() or 0)
            ranks[number] = RankWindow(
                rank=number,
                host=host,
                made_ns=self._hosts[host].made_ns if host in self._hosts else now_ns,
                process=process,
                span=rank.span,
                workers=list(rank.workers),
                tables=tables,
                history={
                    name: b.rows(max(began_ns, b.newest_ns - _WINDOW_NS)) for name, b in learned.items()
                },
                stacks=rank.stacks.newest,
                passing_stacks=rank.stacks.passing,
                last_workers=list(rank.last_workers),
                courses=self._courses.of(number),
            )
        self._courses.follow(ranks)
        hosts = {
            name: HostWindow(
                info=self.facts.hosts[name],
                made_ns=host.made_ns,
                hosts=host.buffer.rows(after_ns),
                gpus=list(self.facts.gpus.get(name, ())),
                gpu_states=host.gpu_states,
                looked_ns=host.looked_ns or None,
            )
            for name, host in self._hosts.items()
            if name in self.facts.hosts
        }
        return RunWindow(
            run_id=self.run_id,
            run_name=self.facts.name,
            now_ns=now_ns,
            span_s=max(0.0, min(WINDOW_S, (now_ns - reach_ns) / 1e9)),
            started_ns=self.facts.started_ns or self._first_ns,
            ranks=ranks,
            hosts=hosts,
            attempt=self.facts.attempt,
            attempt_ns=began_ns,
        )
