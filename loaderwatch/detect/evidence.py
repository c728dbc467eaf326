"""Evidence: everything measured of a run in one window. A number is measured when a rule first asks for it.

``RunEvidence`` describes all ranks together, ``RankEvidence`` one rank. Rules take evidence and return
findings. Summary, page and API read the same object. Evidence does not change; a new window gets its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import LoaderInfo, ProcessInfo, SpanInfo, StackDump
from loaderwatch.core.records import ProfilePart
from loaderwatch.detect.finding import Occurrence
from loaderwatch.detect.measures.boundaries import Boundary, boundaries
from loaderwatch.detect.measures.coupling import Comparison, Coupling
from loaderwatch.detect.measures.critical_path import RunUse, counted, run_use
from loaderwatch.detect.measures.machine import Cpus, HostLoad, Machine, cpus_of, machine_of, slowness_of
from loaderwatch.detect.measures.other_work import Held, interpreter_held
from loaderwatch.detect.measures.pace import Pace, pace_of, paces_of, recent
from loaderwatch.detect.measures.profile import Profile, profile_of
from loaderwatch.detect.measures.progress import Stuck, stuck, wait_limit_s
from loaderwatch.detect.measures.time_use import RECENT_S, quiet_since_ns, share_of, uses_of, wait_share
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.window import HostWindow, RankWindow, RunWindow

DEFAULT_LIMITS: Final = Limits()


class RankEvidence:
    """The evidence of one rank: its reported ``rows``, and the ``load`` that all ranks put on its host."""

    def __init__(self, rows: RankWindow, load: HostLoad, limits: Limits) -> None:
        self.rows = rows
        self.load = load
        self.limits = limits
        self._machines: dict[int, Machine] = {}
        self._profiles: dict[tuple[ProfilePart, int | None], Profile] = {}

    # ---- what the rank reported

    @property
    def rank(self) -> int:
        """Return the rank's number."""
        return self.rows.rank

    @property
    def host(self) -> str:
        """Return the name of the rank's host."""
        return self.rows.host

    @property
    def made_ns(self) -> int:
        """Return when the newest envelope was made, ns UTC by the host's clock."""
        return self.rows.made_ns

    @property
    def process(self) -> ProcessInfo:
        """Return the description of the training process."""
        return self.rows.process

    @property
    def span(self) -> SpanInfo | None:
        """Return the open span of the training thread."""
        return self.rows.span

    @property
    def passing_stacks(self) -> Mapping[str, list[StackDump]]:
        """Return the stacks of short repeated phases, by the reason why they were taken, oldest first."""
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
        """Return the pace of each training loader that delivered a batch."""
        return paces_of(self.rows)

    @cached_property
    def recent_paces(self) -> Sequence[Pace]:
        """Return the recent paces of the loaders that are being iterated, if they have enough rows."""
        return [now for pace in self.paces if (now := recent(pace, self.limits)) is not None]

    @cached_property
    def newest_pace(self) -> Pace | None:
        """Return the pace of the loader with the newest request; None if no loader delivered a batch."""
        return max(self.paces, key=lambda pace: int(pace.request_ns[-1]), default=None)

    def pace(self, loader: LoaderInfo, warm: int | None = None) -> Pace:
        """Return the pace of any loader, including evaluation loaders; ``warm`` as in ``pace_of``."""
        return pace_of(self.rows, loader, warm)

    @cached_property
    def takes_from_several(self) -> bool:
        """Whether the loop recently took batches from several training loaders: messages must name one."""
        lately_ns = self.made_ns - int(self.limits.spike_recent_s * 1e9)
        return sum(int(pace.request_ns[-1]) >= lately_ns for pace in self.paces) > 1

    @cached_property
    def wait_ratio(self) -> float:
        """Return the share (0 to 1) of the last half minute, or newest steps, spent waiting for data."""
        return wait_share(self.rows, self.limits)

    def boundaries(self, loader: LoaderInfo) -> list[Boundary]:
        """Return the epoch boundaries of a loader, oldest first."""
        return boundaries(self.rows, loader)

    # ---- where its time goes, line by line

    def profile(self, part: ProfilePart, loader: int | None = None) -> Profile:
        """Return the counted stacks of a part of the training, of one loader or of all (None)."""
        if (part, loader) not in self._profiles:
            rows, texts = self.rows.table("profile"), self.rows.profile_texts
            self._profiles[part, loader] = profile_of(rows, texts, part, loader=loader)
        return self._profiles[part, loader]

    # ---- whether it makes progress

    @cached_property
    def stuck(self) -> Stuck | None:
        """Return the span that makes no progress; None if there is none."""
        return stuck(self.rows, self.limits)

    def wait_limit_s(self, loader: int) -> float:
        """Return how many seconds a wait for a loader's next batch may take before it counts as a hang."""
        return wait_limit_s(self.rows, loader, self.limits)

    # ---- its machine

    @cached_property
    def cpus(self) -> Cpus:
        """Return the CPUs of the host and their use."""
        return cpus_of(self.load, self.rows)

    def machine(self, loader: int) -> Machine:
        """Return the mean load of the host and the rank over ten seconds, for a loader's workers."""
        if loader not in self._machines:
            self._machines[loader] = machine_of(self.load, self.rows, loader)
        return self._machines[loader]

    @cached_property
    def slowness(self) -> float:
        """Return how many times as long work takes here as on an idle host, at least 1."""
        return slowness_of(self.load, self.rows)

    @cached_property
    def worker_slowness(self) -> float:
        """Return the slowness for the run's workers, without the CPU pressure that they cause themselves."""
        return slowness_of(self.load, self.rows, self.cpus)

    @cached_property
    def interpreter_held(self) -> Held | None:
        """Return how another thread blocks the training thread; None if none does."""
        return interpreter_held(self.rows)


class RunEvidence:
    """The evidence of all ranks of a run together, and of each rank in ``ranks``."""

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
        """Return the evidence of another view of the same window; this object if the view is the same."""
        return self if window is self.window else RunEvidence(window, self.limits, self.reported)

    def let_go(self) -> None:
        """Drop the evidence of single ranks, which takes the most memory. It is measured again on demand."""
        for name in ("ranks", "live_ranks"):
            self.__dict__.pop(name, None)

    @cached_property
    def ranks(self) -> Mapping[int, RankEvidence]:
        """Return the evidence of each rank in the window, by rank."""
        loads = self.loads
        return {
            number: RankEvidence(rows, loads[rows.host], self.limits)
            for number, rows in self.window.ranks.items()
        }

    @cached_property
    def live_ranks(self) -> Sequence[RankEvidence]:
        """Return the ranks whose processes run."""
        return [rank for rank in self.ranks.values() if rank.is_live]

    @cached_property
    def stuck(self) -> list[Stuck]:
        """Return the spans of all ranks that make no progress."""
        return [item for rank in self.ranks.values() if (item := rank.stuck) is not None]

    @cached_property
    def live_hosts(self) -> Sequence[tuple[HostWindow, list[RankWindow]]]:
        """Return the hosts on which ranks still run, each with these ranks."""
        hosts = []
        for name, host in self.window.hosts.items():
            live = [rank for rank in self.window.ranks_by_host.get(name, ()) if rank.process.state == "live"]
            if live:
                hosts.append((host, live))
        return hosts

    @cached_property
    def loads(self) -> Mapping[str, HostLoad]:
        """Return the run's use of each host, by host name."""
        window = self.window
        return {name: HostLoad(window.hosts.get(name), ranks) for name, ranks in window.ranks_by_host.items()}

    @property
    def world_size(self) -> int:
        """Return the number of ranks in the run, including ranks that have not reported."""
        return self.window.world_size

    # ---- who waits for whom

    @cached_property
    def coupling(self) -> Coupling | None:
        """Return which rank waits for which now; None for a single rank.

        Compares the live ranks. If none is alive, compares all ranks as they were at the end.
        """
        return None if self.world_size < 2 else self._live_comparison.over(self.limits)

    @cached_property
    def recent_coupling(self) -> Coupling | None:
        """Return which rank waits for which in the last ``RECENT_S``; None for a single rank.

        Ranks in lockstep end at different moments. While only some have ended, these are compared as well.
        """
        if self.world_size < 2:
            return None
        ended = [number for number in counted(self.window) if not self.ranks[number].is_live]
        if ended:
            coupling = self._comparison(ended).over(self._over_recent)
            if coupling.in_step:
                return coupling
        return self._live_comparison.over(self._over_recent)

    @cached_property
    def _live_comparison(self) -> Comparison:
        return self._comparison(())

    @cached_property
    def _over_recent(self) -> Limits:
        """The limits with the interval over which each rank is measured."""
        return replace(self.limits, recent_s=RECENT_S)

    def _comparison(self, also: Iterable[int]) -> Comparison:
        """Return the comparison of the live ranks and those in ``also``; of all ranks if none are left."""
        everyone = list(self.window.ranks.values())
        chosen = [rank for rank in everyone if rank.process.state == "live" or rank.rank in also] or everyone
        return Comparison(chosen, max(self.limits, self._over_recent, key=lambda limits: limits.recent_s))

    # ---- where the time goes

    @cached_property
    def use(self) -> RunUse:
        """Return where the time of the run went in the last ``RECENT_S``."""
        return run_use(self.window, self.recent_coupling)

    def wait_ratios(self, ranks: Sequence[RankEvidence]) -> dict[int, float]:
        """Return by rank the share (0 to 1) of the last half minute or newest steps spent waiting for data.

        Most ranks make enough steps in ``RECENT_S``, so ``use`` has measured their time already.
        """
        rows = [rank.rows for rank in ranks]
        since_ns = {rank.rank: quiet_since_ns(rank, self.limits) for rank in rows}
        others = [rank for rank in rows if since_ns[rank.rank] != rank.made_ns - int(RECENT_S * 1e9)]
        known = self.use.ranks if len(others) < len(rows) else {}
        uses = {**known, **uses_of(others, since_ns, {}, {})}
        return {number: share_of(uses[number]) for number in since_ns}
