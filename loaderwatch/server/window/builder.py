"""The window builder keeps a run's recent past in memory, takes envelopes, and returns immutable windows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.facts import GpuState, ProfileStack, SpanInfo
from loaderwatch.core.records import LEARNED_FROM, TIME_COLUMN, WHOLE_TABLES
from loaderwatch.core.wire import Envelope
from loaderwatch.detect.window import WINDOW_S, HostWindow, RankWindow, RunWindow, SummedRank, first_at
from loaderwatch.server.store.facts import RunFacts
from loaderwatch.server.store.protocol import PathTotals, RankTotals, StoredRun
from loaderwatch.server.store.sequence_set import SequenceSet
from loaderwatch.server.window import recent_sums, totals
from loaderwatch.server.window.detailed_hosts import LARGE, MOST_RANKS, Detailed, by_host, scarcity
from loaderwatch.server.window.kept_stacks import KeptStacks
from loaderwatch.server.window.loader_histories import Courses
from loaderwatch.server.window.profile_texts import ProfileTexts
from loaderwatch.server.window.row_buffer import LAYOUTS, NO_ROWS, Block, RowBuffer, block_of, block_of_arrays
from loaderwatch.server.window.totals import RunTotals, Totals, of_training

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


@dataclass
class HeldRank:
    """A rank: its newest rows by table, its stacks, and its processes' open spans."""

    buffers: dict[str, RowBuffer] = field(default_factory=dict)
    stacks: KeptStacks = field(default_factory=KeptStacks)
    span: SpanInfo | None = None
    workers: list[SpanInfo] = field(default_factory=list)
    last_workers: list[SpanInfo] = field(default_factory=list)  # the newest worker spans


@dataclass
class HeldHost:
    """A host: its newest rows, and its streamer."""

    buffer: RowBuffer
    made_ns: int = 0
    stream: str = ""  # of its newest envelope
    ranks: set[int] = field(default_factory=set)  # the ranks of its newest spans
    gpu_states: list[GpuState] = field(default_factory=list)
    looked_ns: int = 0  # when the GPU states were read


_MANY_ROWS: Final = 1_000_000
"""Rows of a table over all ranks at most, about 150 MB."""
_NO_TABLES: Final = {name: rows for name, rows in NO_ROWS.items() if name != "hosts"}
_WHOLE_ROWS: Final = 10_000
_KEEP_NS: Final = int((WINDOW_S + 15) * 1e9)
"""How long rows are kept: longer than the window, because a host's clock may be ahead of the others'."""
_WINDOW_NS: Final = int(WINDOW_S * 1e9)
_HOST_ROWS: Final = 2_000


class WindowBuilder:
    """Collects the envelopes of one run. It is not thread-safe, but its windows may be read in any thread.

    With ``in_part``, only some hosts of a large run are looked at in detail (see ``detailed_hosts``).
    ``choose`` selects them, and ``fill`` supplies the past of new ones.
    """

    def __init__(self, run_id: str, *, in_part: bool = False) -> None:
        self.run_id = run_id
        self.facts = RunFacts()
        self._ranks: dict[int, HeldRank] = {}
        self._hosts: dict[str, HeldHost] = {}
        self._courses = Courses()
        self._totals = Totals()
        self._profile_texts = ProfileTexts()
        self._gathered = Gathered()
        self._seen: dict[str, SequenceSet] = {}
        self._first_ns = 0
        self._lost_records = 0
        self._in_part = in_part
        self._detailed: Detailed | None = None  # None: all hosts are looked at in detail
        self._everyone: list[SummedRank] | None = None  # ranks of a large run as of the newest envelope

    # -- in

    def add(self, envelope: Envelope) -> None:
        """Take in an envelope, in any order. A repeated one changes nothing."""
        self.add_all((envelope,))

    def add_all(self, envelopes: Iterable[Envelope]) -> None:
        """Take in envelopes one by one. After one that raises an error, no more are requested."""
        for envelope in envelopes:
            seen = self._seen.setdefault(envelope.stream, SequenceSet())
            if envelope.seq in seen:
                continue
            seen.add(envelope.seq)
            if envelope.host.name in self._gathered.hosts:
                self._take_gathered()
            self.add_facts(envelope)
            newest = envelope.made_ns == self._host(envelope.host.name).made_ns
            self._gathered.take(envelope, self.facts, keep=self._keeps(envelope), count_as_said=newest)
        self._take_gathered()
        self._everyone = None

    def _keeps(self, envelope: Envelope) -> bool:
        """Whether the rows of an envelope are kept, not only summed."""
        if self._in_part and self._detailed is None:
            large = len(self.facts.processes) > LARGE or any(p.world_size > LARGE for p in envelope.processes)
            self._detailed = self._begin_parts() if large else None
        if self._detailed is None:
            return True
        self._detailed.meet(envelope.host.name, envelope.processes, late=envelope.seq > 1)
        return self._detailed.keeps(envelope)

    def _take_gathered(self) -> None:
        """Take in the rows gathered since the last time, as one block per table."""
        gathered, self._gathered = self._gathered, Gathered()
        for table, block, keep in gathered.blocks():
            self._add_block(table, block, gathered.since_ns, gathered.uncounted, keep=keep)
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
            host.made_ns, host.stream = envelope.made_ns, envelope.stream
            self._take_spans(host, envelope.spans)
        if envelope.gpu_states and envelope.made_ns >= host.looked_ns:
            host.gpu_states, host.looked_ns = envelope.gpu_states, envelope.made_ns
        for stack in envelope.stacks:
            self._rank(stack.rank).stacks.take(stack)
        self.add_profile_texts(envelope.profile_stacks)
        if count:
            self._lost_records += sum(loss.count for loss in envelope.losses)

    def add_profile_texts(self, stacks: Sequence[ProfileStack]) -> None:
        """Take in texts of sampled stacks. Windows have a limited number of them."""
        if stacks:
            self._profile_texts.take(stacks, self._sampled_stacks)

    def _sampled_stacks(self) -> set[int]:
        """Return the ids of the stacks that are counted in the rows of any rank."""
        held = (rank.buffers["profile"] for rank in self._ranks.values() if "profile" in rank.buffers)
        return {number for buffer in held for number in buffer.rows()["stack"].tolist()}

    def add_rows(self, table: str, block: Block, host: str, *, count: bool = True, sums: bool = True) -> None:
        """Take in rows of a table. ``count`` false: totals have them already; ``sums`` false: all sums do."""
        if table != "hosts":
            uncounted = self.facts.uncounted_loaders()
            self._add_block(table, block, self.facts.attempt_ns, uncounted, count=count, sums=sums)
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
        keep: bool = True,
        sums: bool = True,
    ) -> None:
        block, firsts = by_rank(table, block, since_ns)
        if not len(firsts):
            return
        if sums and table in SUMMED:
            counted = of_training(table, block, uncounted)
            self._totals.take(table, block, counted, firsts, count=count)
            if self._detailed is not None and count:
                self._detailed.recent.take(table, block, counted, firsts)
        if not keep:
            return
        times = block[LAYOUTS[table].time]
        steps_back = np.flatnonzero(times[1:] < times[:-1]) + 1
        # A rank's first row may be older than the previous rank's last one.
        ordered = bool(np.isin(steps_back, firsts).all())
        begins, numbers = firsts.tolist(), block[0, firsts].tolist()
        limit = 0
        for number, first, last in zip(numbers, begins, [*begins[1:], block.shape[1]], strict=True):
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
        """Begin with a store's facts and totals. The store's rows are then added with ``count=False``."""
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
            self._seen.setdefault(stream, SequenceSet()).extend(intervals)
        if self._in_part and self.facts.world_size > LARGE:
            self._detailed = self._begin_parts()
            self._detailed.lacking = set(self._detailed.hosts)

    # -- in part

    def choose(self, wanted: Collection[int]) -> None:
        """Choose again which hosts of a large run are looked at in detail.

        ``wanted`` are ranks that somebody asks for or that an open finding names. See ``lacking``.
        """
        if self._detailed is None:
            return
        everyone = self._everyone = self._summarized()
        now_ns = max((host.made_ns for host in self._hosts.values()), default=0)
        scarcities = {
            name: part for name, host in self._hosts.items() if (part := scarcity(host.buffer.rows())) >= 1.0
        }
        self._drop(self._detailed.choose(everyone, wanted, now_ns / 1e9, scarcities))

    def lacking(self) -> tuple[list[int], list[str]]:
        """Return the ranks and hosts that are newly looked at in detail and need their past from ``fill``.

        Rows of hosts are always kept, so only a restarted server lacks them.
        """
        lacking = set() if self._detailed is None else self._detailed.lacking
        hosts = sorted(name for name in lacking if not len(self._host(name).buffer))
        return sorted(by_host(self.facts.rank_hosts, lacking)) if lacking else [], hosts

    def fill(
        self, tables: Iterable[tuple[str, Block, str]], sequences: Mapping[str, Sequence[tuple[int, int]]]
    ) -> None:
        """Supply the past of the hosts that lack it: rows of tables, those of ``hosts`` with the host's name.

        ``sequences`` are, by stream, the envelopes whose rows these are. Other rows come in envelopes.
        """
        if self._detailed is not None:
            self._detailed.fill({name: host.stream for name, host in self._hosts.items()}, sequences)
        for table, block, host in tables:
            self.add_rows(table, block, host, sums=False)

    def add_sums(self, table: str, block: Block) -> None:
        """Take in rows of a large run only for sums of the last half minute; the totals have them already."""
        block, firsts = by_rank(table, block, self.facts.attempt_ns)
        if self._detailed is not None and len(firsts):
            counted = of_training(table, block, self.facts.uncounted_loaders())
            self._detailed.recent.take(table, block, counted, firsts)

    def _begin_parts(self) -> Detailed:
        detailed = Detailed()
        for rank, host in self.facts.rank_hosts.items():
            detailed.meet(host, (self.facts.processes[rank],))
        self._drop(set(self.facts.rank_hosts.values()) - detailed.hosts)
        return detailed

    def _drop(self, hosts: Collection[str]) -> None:
        """Drop the rows of hosts that are no longer looked at in detail."""
        for rank in by_host(self.facts.rank_hosts, hosts):
            self._rank(rank).buffers = {}

    def _summarized(self) -> list[SummedRank]:
        """Return each rank of a large run with its sums, in order."""
        processes = sorted(self.facts.processes.items())
        hosts = [self.facts.rank_hosts[rank] for rank, _ in processes]
        now_ns = max((host.made_ns for host in self._hosts.values()), default=0)
        made_ns = [self._made_ns(host, now_ns) for host in hosts]
        if self._detailed is None:
            return []
        rates = self._detailed.recent.rates([rank for rank, _ in processes], made_ns)
        gpus = {gpu.rank: gpu.gpu for host_gpus in self.facts.gpus.values() for gpu in host_gpus}
        return [
            SummedRank(rank, host, made, process, self._rank(rank).span, gpus.get(rank), *measured)
            for (rank, process), host, made, measured in zip(
                processes,
                hosts,
                made_ns,
                zip(*(values.tolist() for values in rates), strict=True),
                strict=True,
            )
        ]

    def _begin_again(self) -> None:
        """Begin a new attempt: drop rows, spans and totals of the previous one."""
        self._detailed = self._everyone = None
        began_ns = self._first_ns = self.facts.attempt_ns
        previous_ranks, self._ranks, self._courses = self._ranks, {}, Courses()
        self._totals = Totals()
        self._lost_records = 0
        for host in self._hosts.values():
            host.ranks = set()
        for rank in previous_ranks.values():
            for table, buffer in rank.buffers.items():
                rows = buffer.rows(began_ns)
                if len(rows[TIME_COLUMN[table]]):  # these rows arrived before their process was described
                    self.add_rows(table, block_of_arrays(table, rows), "")

    def _rank(self, rank: int) -> HeldRank:
        held = self._ranks.get(rank)
        if held is None:
            held = self._ranks[rank] = HeldRank()
        return held

    def _host(self, name: str) -> HeldHost:
        held = self._hosts.get(name)
        if held is None:
            held = self._hosts[name] = HeldHost(RowBuffer("hosts", _HOST_ROWS))
        return held

    def _limit(self, table: str) -> int:
        if table in WHOLE_TABLES:
            return _WHOLE_ROWS
        ranks = self.facts.world_size if self._detailed is None else MOST_RANKS
        return min(20_000, max(1_000, _MANY_ROWS // max(1, ranks)))

    def _take_spans(self, host: HeldHost, spans: list[SpanInfo]) -> None:
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
        """Return sums since the run began, from what this builder has seen and what ``seed`` supplied."""
        return self._totals.so_far(self._ranks, self._lost_records)

    # -- out

    def held_bytes(self) -> int:
        """Return the memory that rows, stacks and texts of sampled stacks take."""
        hosts = sum(host.buffer.held_bytes for host in self._hosts.values())
        ranks = sum(buffer.held_bytes for rank in self._ranks.values() for buffer in rank.buffers.values())
        stacks = sum(rank.stacks.held_bytes for rank in self._ranks.values())
        return hosts + ranks + stacks + self._profile_texts.held_bytes

    def _made_ns(self, host: str, now_ns: int) -> int:
        """Return when a host's newest envelope was made, ns UTC; ``now_ns`` before its first one.

        In a replay, rows may come before the first envelope.
        """
        known = self._hosts.get(host)
        return now_ns if known is None or not known.made_ns else known.made_ns

    def window(self, now_ns: int | None = None) -> RunWindow:
        """Return the last ``WINDOW_S`` seconds before ``now_ns`` (UTC; None: the newest ``made_ns``)."""
        if now_ns is None:
            now_ns = max((host.made_ns for host in self._hosts.values()), default=0)
        began_ns = self.facts.attempt_ns
        after_ns = max(now_ns - _WINDOW_NS, began_ns)
        ranks: dict[int, RankWindow] = {}
        reach_ns = self._first_ns
        all_ranks = self._everyone or self._summarized()
        detailed = set() if self._detailed is None else self._detailed.hosts
        profile_texts = self._profile_texts.shown()
        # Rows that arrived before their process was described wait for the description.
        for number, process in sorted(self.facts.processes.items()):
            host = self.facts.rank_hosts[number]
            if self._detailed is not None and host not in detailed:
                continue
            rank = self._rank(number)
            tables = dict(_NO_TABLES)
            for name, buffer in rank.buffers.items():
                tables[name] = buffer.rows((began_ns or None) if name in WHOLE_TABLES else after_ns)
            learned = {name: rank.buffers[name] for name in LEARNED_FROM if name in rank.buffers}
            if (steps := rank.buffers.get("steps")) is not None and steps.dropped:
                reach_ns = max(reach_ns, steps.oldest_ns() or 0)
            ranks[number] = RankWindow(
                rank=number,
                host=host,
                made_ns=self._made_ns(host, now_ns),
                process=process,
                span=rank.span,
                workers=list(rank.workers),
                tables=tables,
                history={
                    name: b.rows(max(began_ns, b.newest_ns - _WINDOW_NS)) for name, b in learned.items()
                },
                stacks=rank.stacks.newest,
                passing_stacks=rank.stacks.passing,
                profile_texts=profile_texts,
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
            summed={sums.rank: sums for sums in all_ranks if sums.host not in detailed},
        )
