"""Evidence: all that is measured of a run in one window. Each number is measured once, when a rule first asks for it.

``RunEvidence`` is about all ranks together, ``RankEvidence`` about one. Rules take evidence and return findings; summary, page and
API read the same object. Nothing in it changes, and a new window has new evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import LoaderInfo, ProcessInfo, SpanInfo, StackDump
from loaderwatch.detect.finding import Occurrence
from loaderwatch.detect.measures.boundaries import Boundary, boundaries
from loaderwatch.detect.measures.coupling import Comparison, Coupling
from loaderwatch.detect.measures.critical_path import RunUse, counted, run_use
from loaderwatch.detect.measures.machine import Cpus, HostLoad, Machine, cpus_of, machine_of, slowness_of
from loaderwatch.detect.measures.other_work import Held, interpreter_held
from loaderwatch.detect.measures.pace import Pace, pace_of, paces_of, recent
from loaderwatch.detect.measures.progress import Stuck, stuck, wait_limit_s
from loaderwatch.detect.measures.time_use import RECENT_S, quiet_since_ns, share_of, wait_share
from loaderwatch.detect.measures.time_use_of_ranks import uses_of
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.window import HostWindow, RankWindow, RunWindow

DEFAULT_LIMITS: Final = Limits()


class RankEvidence:
    """What one rank shows.

    ``rows`` are what the rank reported, ``load`` is the use of its host by all ranks of the run there.
    """

    def __init__(self, rows: RankWindow, load: HostLoad, limits: Limits) -> None:
        self.rows = rows
        self.load = load
        self.limits = limits
        self._machines: dict[int, Machine] = {}

    # ---- what the rank reported

    @property
    def rank(self) -> int:
        """Return the rank's number."""
        return self.rows.rank

    @property
    def host(self) -> str:
        """Return the name of its host."""
        return self.rows.host

    @property
    def made_ns(self) -> int:
        """Return when the newest envelope was made, ns UTC by its host's clock."""
        return self.rows.made_ns

    @property
    def process(self) -> ProcessInfo:
        """Return what the training process is."""
        return self.rows.process

    @property
    def span(self) -> SpanInfo | None:
        """Return what the training thread does now."""
        return self.rows.span

    @property
    def passing_stacks(self) -> Mapping[str, list[StackDump]]:
        """Return the stacks of what is over in a moment and comes again, by why they were taken, oldest first."""
        return self.rows.passing_stacks

    @property
    def is_live(self) -> bool:
        """Whether the training process runs."""
        return self.process.state == "live"

    def table(self, name: str) -> Columns:
        """Return the rank's rows of a table; a table without rows if there are none."""
        return self.rows.table(name)

    # ---- its loops

    @cached_property
    def paces(self) -> Sequence[Pace]:
        """Return the pace of each training loader that delivered anything."""
        return paces_of(self.rows)

    @cached_property
    def recent_paces(self) -> Sequence[Pace]:
        """Return the paces of now: of loaders that are being iterated, with enough rows to judge."""
        return [now for pace in self.paces if (now := recent(pace, self.limits)) is not None]

    @cached_property
    def newest_pace(self) -> Pace | None:
        """Return the pace of the loader that was asked last; None where none delivered anything."""
        return max(self.paces, key=lambda pace: int(pace.request_ns[-1]), default=None)

    def pace(self, loader: LoaderInfo, warm: int | None = None) -> Pace:
        """Return the pace of any loader, also of one for evaluation; ``warm`` as in ``pace_of``."""
        return pace_of(self.rows, loader, warm)

    @cached_property
    def takes_from_several(self) -> bool:
        """Whether the loop lately took batches from several training loaders, so that texts must name one."""
        lately_ns = self.made_ns - int(self.limits.spike_recent_s * 1e9)
        return sum(int(pace.request_ns[-1]) >= lately_ns for pace in self.paces) > 1

    @cached_property
    def wait_ratio(self) -> float:
        """Return the share (0 to 1) of the last half minute, and at least of the last steps, spent waiting for data."""
        return wait_share(self.rows, self.limits)

    def boundaries(self, loader: LoaderInfo) -> list[Boundary]:
        """Return the epoch boundaries of a loader, oldest first."""
        return boundaries(self.rows, loader)

    # ---- whether it moves

    @cached_property
    def stuck(self) -> Stuck | None:
        """Return the span that stands still; None while the rank moves."""
        return stuck(self.rows, self.limits)

    def wait_limit_s(self, loader: int) -> float:
        """Return how many seconds a wait for a loader's next batch may take before it counts as a hang."""
        return wait_limit_s(self.rows, loader, self.limits)

    # ---- its machine

    @cached_property
    def cpus(self) -> Cpus:
        """Return the CPUs of the host and who uses them."""
        return cpus_of(self.load, self.rows)

    def machine(self, loader: int) -> Machine:
        """Return the load of the host and of the rank's processes, as means over ten seconds, for the workers of a loader."""
        if loader not in self._machines:
            self._machines[loader] = machine_of(self.load, self.rows, loader)
        return self._machines[loader]

    @cached_property
    def slowness(self) -> float:
        """Return how many times as long the same work takes here as on an idle host, from 1 on."""
        return slowness_of(self.load, self.rows)

    @cached_property
    def worker_slowness(self) -> float:
        """Return the same for the run's workers; the pressure that they make themselves is left out."""
        return slowness_of(self.load, self.rows, self.cpus)

    @cached_property
    def interpreter_held(self) -> Held | None:
        """Return how another thread keeps the training thread from running; None where none does."""
        return interpreter_held(self.rows)


class RunEvidence:
    """What the ranks of a run show together, and each of them in ``ranks``."""

    def __init__(
        self,
        window: RunWindow,
        limits: Limits = DEFAULT_LIMITS,
        reported: Callable[[], Sequence[Occurrence]] = tuple,
    ) -> None:
        self.window = window
        self.limits = limits
        self.reported = reported  # the alerts of this attempt so far, newest first

    def seen_as(self, window: RunWindow) -> RunEvidence:
        """Return the evidence in another view of the same window; this one if it is the same view."""
        return self if window is self.window else RunEvidence(window, self.limits, self.reported)

    def let_go(self) -> None:
        """Drop the evidence of single ranks, which takes the most memory. Who asks for it again has it measured again."""
        for name in ("ranks", "live_ranks"):
            self.__dict__.pop(name, None)

    @cached_property
    def ranks(self) -> Mapping[int, RankEvidence]:
        """Return the evidence of each rank that is looked at, by its number."""
        loads = self.loads
        return {
            number: RankEvidence(rows, loads[rows.host], self.limits)
            for number, rows in self.window.ranks.items()
        }

    @cached_property
    def live_ranks(self) -> Sequence[RankEvidence]:
        """Return the ranks that still run."""
        return [rank for rank in self.ranks.values() if rank.is_live]

    @cached_property
    def stuck(self) -> list[Stuck]:
        """Return the spans that stand still, of all ranks."""
        return [item for rank in self.ranks.values() if (item := rank.stuck) is not None]

    @cached_property
    def live_hosts(self) -> Sequence[tuple[HostWindow, list[RankWindow]]]:
        """Return the hosts on which ranks still run, each with those."""
        found = []
        for name, host in self.window.hosts.items():
            live = [rank for rank in self.window.ranks_by_host.get(name, ()) if rank.process.state == "live"]
            if live:
                found.append((host, live))
        return found

    @cached_property
    def loads(self) -> Mapping[str, HostLoad]:
        """Return what the run's ranks use of each host, by its name."""
        window = self.window
        return {name: HostLoad(window.hosts.get(name), ranks) for name, ranks in window.ranks_by_host.items()}

    @property
    def world_size(self) -> int:
        """Return how many ranks the run has, including those of which nothing was heard."""
        return self.window.world_size

    # ---- who waits for whom

    @cached_property
    def coupling(self) -> Coupling | None:
        """Return who waits for whom now; None when the run has a single rank.

        Compared are the ranks that live; when none does, all of them, as they were at the end.
        """
        return None if self.world_size < 2 else self._live_comparison.over(self.limits)

    @cached_property
    def recent_coupling(self) -> Coupling | None:
        """Return who waits for whom in the last ``RECENT_S``; None when the run has a single rank.

        Ranks that go in step do not all end in the same moment: while some have ended, it is still that of all who count.
        """
        if self.world_size < 2:
            return None
        ended = [number for number in counted(self.window) if not self.ranks[number].is_live]
        if ended:
            found = self._comparison(ended).over(self._over_recent)
            if found.in_step:
                return found
        return self._live_comparison.over(self._over_recent)

    @cached_property
    def _live_comparison(self) -> Comparison:
        return self._comparison(())

    @cached_property
    def _over_recent(self) -> Limits:
        """The ranks are compared over the same interval as each of them is measured."""
        return replace(self.limits, recent_s=RECENT_S)

    def _comparison(self, also: Iterable[int]) -> Comparison:
        """Return the steps of the ranks that live and of some others, or of all where none lives."""
        everyone = list(self.window.ranks.values())
        going = [rank for rank in everyone if rank.process.state == "live" or rank.rank in also] or everyone
        return Comparison(going, max(self.limits, self._over_recent, key=lambda limits: limits.recent_s))

    # ---- where the time goes

    @cached_property
    def use(self) -> RunUse:
        """Return where the time of the run went in the last ``RECENT_S``."""
        return run_use(self.window, self.recent_coupling)

    def wait_ratios(self, ranks: Sequence[RankEvidence]) -> dict[int, float]:
        """Return by rank the share (0 to 1) of the last half minute, and at least of the last steps, spent waiting for data.

        Most ranks do so many steps that this is the time that ``use`` measures anyway.
        """
        rows = [rank.rows for rank in ranks]
        since_ns = {rank.rank: quiet_since_ns(rank, self.limits) for rank in rows}
        others = [rank for rank in rows if since_ns[rank.rank] != rank.made_ns - int(RECENT_S * 1e9)]
        known = self.use.ranks if len(others) < len(rows) else {}
        uses = {**known, **uses_of(others, since_ns, {}, {})}
        return {number: share_of(uses[number]) for number in since_ns}
