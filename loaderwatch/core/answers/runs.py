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
    """What people have said of a run. It lies in the run's own file, so that it goes where the file goes."""

    name: str = ""  # in place of the script's; "": nobody has given it one
    tags: list[str] = []
    note: str = ""
    pinned: bool = False  # listed first, and never deleted for its age


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /runs/{run}/fingerprint``: the same for two runs with the same rows and events, wherever they are stored."""

    fingerprint: str


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run in ``GET /runs``."""

    run_id: str
    name: str  # the one it was given, else the script's
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
    script: str = ""  # the name before anybody gave it another
    tags: list[str] = []
    note: str = ""
    pinned: bool = False
    verdict_text: Text | None = None


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What a run holds, and so what is lost with it: ``GET /runs/{run}/contents``."""

    run_id: str
    name: str
    bytes: int  # on disk
    seconds: float
    steps: int | None
    attempts: int
    alerts: int
    reporting: bool  # its processes report now, so it cannot be deleted
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
    """A host of a run. ``gpu_status`` says why it has no GPU charts, "" when it has."""

    name: str
    cpus: int
    usable_cpus: float | None
    gpu_status: str  # ``gpu_status_text`` in English
    gpu_status_text: Text | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a framework is by its own count."""

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
    """A rank now; shares and means are of the last 30 s."""

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
    phase: str | None  # PhaseName, or the name that the script gave one
    phase_age_s: float | None
    steps_per_s: float | None
    data_wait_ratio: float | None
    clock: Clock = "loop"  # of data_wait_ratio, step_s and wait_s
    known_ratio: float | None = (
        None  # share of that time of which the device's own events tell; None by the loop's clock
    )
    step_s: float | None
    wait_s: float | None
    ready_batches: int | None
    gpu: int | None
    gpu_utilization_ratio: float | None
    seen_at: float | None
    in_detail: bool = True  # False: of a large run, where of this rank only sums per second are held


class RankGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks that are in the same state, stand in the same place and differ from most ranks in the same way.

    Numbers are medians over the group; ``phase_age_s`` is that of the rank that stands longest.
    """

    group: str  # its id in ``GET /runs/{run}/ranks?group=``
    count: int
    ranks: list[int]  # the first few
    hosts: int
    state: RankStatus
    phase: str | None  # where they stand; None while they go on
    phase_age_s: float | None
    differs_in: RankMeasure | None  # None: in nothing
    higher: bool | None
    data_wait_ratio: float | None
    steps_per_s: float | None
    step_s: float | None
    gpu_utilization_ratio: float | None


class RankPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some ranks of a run: ``GET /runs/{run}/ranks``. ``total``: how many there are of those that were asked for."""

    total: int
    rows: list[RankRow]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /runs/{run}/summary``.

    Of a run of more than 256 ranks ``ranks`` and ``loaders`` are of those that are looked at in detail, and ``hosts`` are some; all
    ranks are in ``GET /runs/{run}/ranks``, and ``groups`` says of all what they do.
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
    unwatched_count: int = 0  # those that go on, of which loaderwatch stepped aside
    host_count: int = 0
    hosts: list[Host]
    steps: int | None
    eval_batches: int = 0
    steps_per_s: float | None
    data_wait_ratio: float | None
    clock: Clock = "loop"  # of data_wait_ratio, compute_duty_ratio and goodput_ratio
    known_ratio: float | None = (
        None  # share of the ranks' time of which their devices' own events tell; None by the loop's clock
    )
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
    groups: list[RankGroup] = []  # of a run of more than 16 ranks, the smallest first
    ranks: list[RankRow]


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Which server this is, and until when it stays: ``GET /server``. ``reporting``: runs whose envelopes arrive."""

    url: str
    pid: int
    data_dir: str
    started_by: str
    started_at: float
    idle_hours: float | None
    leaves_at: float | None
    reporting: list[str]
