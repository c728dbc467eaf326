"""Which hosts of a large run are looked at in detail: those with a rank that stands out, and an even sample of the others.

Detectors need rows, and the rows of ten thousand ranks are more than one process can look at twice a second. What every rank
did in the last half minute is known by sums (``recent_sums``), and where it stands by its open span. A rank that differs from
the others in any of that brings its host along, whose ranks share CPUs, memory and disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Final

from loaderwatch.core.facts import ProcessInfo
from loaderwatch.core.wire import Envelope
from loaderwatch.detect.window import SummedRank
from loaderwatch.server.store.sequence_set import SequenceSet
from loaderwatch.server.window.outliers import standing_out
from loaderwatch.server.window.recent_sums import RecentSums

LARGE: Final = 256
"""A run of more ranks is looked at in part."""
MOST_RANKS: Final = 128
"""How many ranks are looked at in detail then, but for the ranks of one host that has more."""
SAMPLED: Final = 64
"""How many of them, at least, are an even sample, rank 0 among them. Statements on the whole run lean on these."""
POINTS: Final = 8
"""At so many numbers, as far apart as can be, hosts are in the sample from their first envelope on. Eight ranks on each are enough."""
STAYS_S: Final = 60.0
"""For how long a host is looked at after it stood out last, so that detectors see what came of it."""
MOST_NEW: Final = 4
"""How many hosts are added in one look, since the rows of their last minutes are read from the store."""

_STAYING: Final = 2.0  # times the score of a host that is looked at already, so that equals do not take turns


def is_sampled(rank: int, world_size: int, points: int) -> bool:
    """Whether a rank is one of so many that are as far apart as can be."""
    return rank == 0 or rank * points // world_size != (rank - 1) * points // world_size


class Detailed:
    """The hosts of one attempt of a run that are looked at in detail."""

    def __init__(self) -> None:
        self.hosts: set[str] = set()
        self.recent = RecentSums()  # of all ranks
        self.lacking: set[str] = set()  # hosts that were chosen, and whose past is not there yet
        self._filled: dict[str, SequenceSet] = {}  # by stream, the envelopes whose rows came with the past
        self._sampled: set[str] = set()
        self._wanted: dict[str, tuple[float, float]] = {}  # by host: until when, and how much it stood out

    def meet(self, host: str, processes: Sequence[ProcessInfo], *, late: bool = False) -> None:
        """Look at a host from now on, if one of its ranks is in the sample. ``late`` says that rows of it were let go before."""
        if host not in self._sampled and any(
            is_sampled(p.rank, max(p.world_size, 1), POINTS) for p in processes
        ):
            self._sampled.add(host)
            if late and host not in self.hosts:
                self.lacking.add(host)
            self.hosts.add(host)

    def keeps(self, envelope: Envelope) -> bool:
        """Whether the rows of an envelope are kept; else they are summed only."""
        host, filled = envelope.host.name, self._filled.get(envelope.stream)
        if host not in self.hosts or host in self.lacking:
            return False
        return filled is None or envelope.seq not in filled

    def fill(self, streams: Mapping[str, str], sequences: Mapping[str, Sequence[tuple[int, int]]]) -> None:
        """Note that the past of all hosts that lacked it is there.

        ``streams`` has the stream of each host's newest envelope, ``sequences`` the envelopes that are in that past, by stream.
        """
        of_lacking = {streams.get(host, "") for host in self.lacking}
        if "" in of_lacking:  # a host that was silent since a restart sends one of those that are nobody's
            of_lacking |= sequences.keys() - set(streams.values())
        for stream in of_lacking:
            self._filled.setdefault(stream, SequenceSet()).extend(sequences.get(stream, ()))
        self.lacking = set()

    def choose(
        self,
        ranks: Sequence[SummedRank],
        wanted: Collection[int],
        now_s: float,
        scarce: Mapping[str, float] = MappingProxyType({}),
    ) -> set[str]:
        """Choose anew at ``now_s`` (UTC), by what all ranks of the run do; return the hosts that are let go.

        ``wanted`` are ranks that somebody asks for or that an open finding names, ``scarce`` the hosts on which something
        runs out, with how much they stand out by that.
        """
        sizes = Counter(rank.host for rank in ranks)
        scores = {host: how for host, how in scarce.items() if host in sizes}
        for rank, score in zip(ranks, standing_out(ranks).tolist(), strict=True):
            if rank.rank in wanted:
                score = inf
            if score >= 1.0:
                scores[rank.host] = max(score, scores.get(rank.host, 0.0))
        for host, score in scores.items():
            self._wanted[host] = now_s + STAYS_S, score
        self._wanted = {host: one for host, one in self._wanted.items() if one[0] > now_s and host in sizes}
        self._sample(ranks, sizes)
        order = sorted(
            self._wanted.keys() - self._sampled,
            key=lambda host: (-self._wanted[host][1] * (_STAYING if host in self.hosts else 1.0), host),
        )
        chosen = {host for host in self._sampled if host in sizes}
        room = max(MOST_RANKS - sum(sizes[host] for host in chosen), MOST_RANKS - SAMPLED)
        left = MOST_NEW
        for host in order:
            new = host not in self.hosts
            if sizes[host] > room and len(chosen) > len(self._sampled):
                break
            if new and not left:
                continue
            left -= new
            room -= sizes[host]
            chosen.add(host)
        gone = self.hosts - chosen
        self.lacking = (self.lacking | (chosen - self.hosts)) - gone
        self.hosts = chosen
        return gone

    def _sample(self, ranks: Sequence[SummedRank], sizes: Mapping[str, int]) -> None:
        """Add to a sample of hosts with few ranks, between those that are in it, until it is large enough."""
        points, new = POINTS, 0
        while sum(sizes.get(host, 0) for host in self._sampled) < SAMPLED and points < 2 * SAMPLED:
            for rank in ranks:
                if rank.host not in self._sampled and is_sampled(
                    rank.rank, max(len(ranks), rank.rank + 1), points
                ):
                    self._sampled.add(rank.host)
                    new += 1
                    if new == MOST_NEW:
                        return
            points *= 2


def by_host(ranks: Mapping[int, str], hosts: Collection[str]) -> set[int]:
    """Return the ranks that run on some hosts."""
    return {rank for rank, host in ranks.items() if host in hosts}
