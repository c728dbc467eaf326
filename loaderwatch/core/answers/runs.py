"""Runs, their ranks and loaders, and the server itself."""

from __future__ import annotations

import msgspec

from loaderwatch.core.answers.basics import (
    AttemptStatus,
    Clock,
    RankMeasure,
    RankStatus,
    RunStatus,
    Verdict,
    VerdictSeverity,
)
from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.message import Text


class Labels(msgspec.Struct, frozen=True, kw_only=True):
    """What people have noted about a run. It is stored in the run's own file and moves with the file."""

    name: str = ""  # replaces the script's name; "": no name was given
    tags: list[str] = []
    note: str = ""
    pinned: bool = False  # listed first, and never deleted because of its age


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /runs/{run}/fingerprint``: equal for two runs with the same rows and events, in any store."""

    fingerprint: str


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run in ``GET /runs``."""

    run_id: str
    name: str  # the given name, else the script's
    state: RunStatus
    started_at: float
    last_seen_at: float
    world_size: int
    hosts: list[str]  # the first 64
    host_count: int = 0
    steps: int | None = None
    attempts: int = 1
    verdict: str | None = None  # its title: ``verdict_text`` in English
    severity: VerdictSeverity | None = None
    script: str = ""  # the name before a person gave another one
    tags: list[str] = []
    note: str = ""
    pinned: bool = False
    verdict_text: Text | None = None


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What a run contains, and what its deletion would lose: ``GET /runs/{run}/contents``."""

    run_id: str
    name: str
    bytes: int  # on disk
    seconds: float
    steps: int | None
    attempts: int
    alerts: int
    reporting: bool  # its processes are reporting now, so it cannot be deleted
    may_change: bool  # this reader may name, tag and pin it
    may_delete: bool


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier attempt of a run."""

    attempt: int
    state: AttemptStatus
    began_at: float
    ended_at: float
    steps: int | None
    exit: str | None


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A host of a run. ``gpu_status`` explains missing GPU charts, "" if there are GPU charts."""

    name: str
    cpus: int
    usable_cpus: float | None
    gpu_status: str  # ``gpu_status_text`` in English
    gpu_status_text: Text | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a framework by its own count."""

    framework: str
    version: str
    stage: str | None
    epoch: int | None
    max_epochs: int | None
    global_step: int | None


class Loader(LoaderInfo, frozen=True, kw_only=True):
    """A loader of a rank, with its configuration."""

    rank: int


class RankRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A rank now; shares and means are over the last 30 s."""

    rank: int
    host: str
    pid: int
    state: RankStatus
    exit: str | None
    watched: bool
    phases_missing: str | None = None
    step: int | None
    eval_batches: int = 0
    epoch: int | None
    batch: int | None
    phase: str | None  # PhaseName, or a name from the script
    phase_age_s: float | None
    steps_per_s: float | None
    data_wait_ratio: float | None
    clock: Clock = "loop"  # of data_wait_ratio, step_s and wait_s
    known_ratio: float | None = None  # share of the time that device events cover; None by the loop's clock
    step_s: float | None
    wait_s: float | None
    ready_batches: int | None
    gpu: int | None
    gpu_utilization_ratio: float | None
    seen_at: float | None
    in_detail: bool = True  # False: in a large run, only sums per second are kept for this rank


class RankGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks with the same state and phase, which differ from most ranks in the same way.

    Numbers are medians over the group; ``phase_age_s`` is the longest one in the group.
    """

    group: str  # its id in ``GET /runs/{run}/ranks?group=``
    count: int
    ranks: list[int]  # the first few
    hosts: int
    state: RankStatus
    phase: str | None  # where they are stuck; None while they make progress
    phase_age_s: float | None
    differs_in: RankMeasure | None  # None: no difference
    higher: bool | None
    data_wait_ratio: float | None
    steps_per_s: float | None
    step_s: float | None
    gpu_utilization_ratio: float | None


class RankPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some ranks of a run: ``GET /runs/{run}/ranks``. ``total``: how many ranks match the request."""

    total: int
    rows: list[RankRow]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /runs/{run}/summary``.

    In a run of more than 256 ranks, ``ranks`` and ``loaders`` cover only the ranks in detail, and ``hosts``
    only some hosts. All ranks are in ``GET /runs/{run}/ranks``, and summarized in ``groups``.
    """

    run_id: str
    name: str
    state: RunStatus
    attempt: int = 1
    attempts: int = 1
    earlier: list[Earlier] = []
    started_at: float
    last_seen_at: float
    now: float
    world_size: int
    rank_count: int = 0  # ranks that have reported
    unwatched_count: int = 0  # ranks that go on training after loaderwatch stepped aside
    host_count: int = 0
    hosts: list[Host]
    steps: int | None
    eval_batches: int = 0
    steps_per_s: float | None
    data_wait_ratio: float | None
    clock: Clock = "loop"  # of data_wait_ratio, compute_duty_ratio and goodput_ratio
    known_ratio: float | None = None  # share of the ranks' time with device events; None by the loop's clock
    gpu_utilization_ratio: float | None
    gpu_starved_ratio: float | None
    compute_duty_ratio: float | None
    goodput_ratio: float | None
    lost_s: float | None
    lost_clock: Clock = "loop"
    lost_records: int
    simulated_gpu: bool
    epochs: int | None
    progress: Progress | None = None
    verdict: Verdict
    loaders: list[Loader]
    groups: list[RankGroup] = []  # in a run of more than 16 ranks; the smallest group first
    ranks: list[RankRow]


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The server, and until when it runs: ``GET /server``. ``reporting``: runs whose envelopes arrive."""

    url: str
    pid: int
    data_dir: str
    started_by: str
    started_at: float
    idle_hours: float | None
    leaves_at: float | None
    reporting: list[str]
