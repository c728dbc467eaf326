"""What the HTTP API answers, see docs/http-api.md. The server makes these, the command line reads them, and the page's
``web/js/types.js`` is generated from them.

Times are UTC seconds, durations seconds, shares 0 to 1; None is "not known". A field with a default may be missing: a
server that still runs may be of an older version.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from loaderwatch.core.facts import LoaderInfo, PhaseName

RunStatus: TypeAlias = Literal["live", "finished", "hung", "crashed", "lost"]
AttemptStatus: TypeAlias = Literal["finished", "crashed", "lost"]
RankStatus: TypeAlias = Literal["live", "finished", "crashed", "lost"]
Severity: TypeAlias = Literal["info", "warning", "critical"]
VerdictSeverity: TypeAlias = Literal["ok", "info", "warning", "critical"]
AlertState: TypeAlias = Literal["firing", "acknowledged", "silenced", "resolved"]
Clock: TypeAlias = Literal["device", "loop", "mixed"]
"""Whose waits are counted: the device's, where its events tell how long it lacked data, else the loop's in next(loader)."""
Unit: TypeAlias = Literal["ratio", "s", "count", "bytes", "index", "text", "per_s"]
CouplingState: TypeAlias = Literal["waiting", "turns", "even", "apart", "unknown", "standing"]
PlaceState: TypeAlias = Literal["stands", "moving", "ended", "crashed", "unknown"]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What to tell a person first. ``finding_id`` is the id of the alert that says more, None when there is none."""

    severity: VerdictSeverity
    title: str
    advice: str = ""
    finding_id: str | None = None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One number a person can check against the charts, e.g. ``("data wait", 0.62, "ratio")``."""

    label: str
    value: float | int | str | None
    unit: Unit


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of advice on a configuration. ``check`` is its heading in docs/doctor.md."""

    check: str
    severity: Severity
    what: str  # what is configured, with its numbers
    why: str
    change: str
    loader: str | None = None  # the loader's name
    where: str | None = None  # file and line of the loader's construction, where that is known
    ranks: list[int] = []


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """Stacks of one process: -1 is the training process, else a worker. ``why`` says why there is none, if so."""

    rank: int
    worker: int
    pid: int
    taken_at: float
    text: str
    why: str


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run in ``GET /runs``."""

    run_id: str
    name: str
    state: RunStatus
    started_at: float
    last_seen_at: float
    world_size: int
    hosts: list[str]
    steps: int | None = None
    attempts: int = 1
    verdict: str | None = None  # its title
    severity: VerdictSeverity | None = None


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
    gpu_status: str


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


class RankRow(msgspec.Struct, frozen=True, kw_only=True):
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
    step_s: float | None
    wait_s: float | None
    ready_batches: int | None
    gpu: int | None
    gpu_utilization_ratio: float | None
    seen_at: float | None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /runs/{run}/summary``."""

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
    hosts: list[Host]
    steps: int | None
    eval_batches: int = 0
    steps_per_s: float | None
    data_wait_ratio: float | None
    clock: Clock = "loop"  # of data_wait_ratio, compute_duty_ratio, goodput_ratio and lost_s
    gpu_utilization_ratio: float | None
    gpu_starved_ratio: float | None
    compute_duty_ratio: float | None
    goodput_ratio: float | None
    lost_s: float | None
    lost_records: int
    simulated_gpu: bool
    epochs: int | None
    progress: Progress | None = None
    verdict: Verdict
    loaders: list[Loader]
    ranks: list[RankRow]


class Folded(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that another one explains. ``warned_s``: how long it had been an alert before."""

    key: str
    code: str
    scenario: str
    severity: Severity
    title: str
    evidence: list[Evidence]
    began_at: float
    warned_s: float | None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding and its alert, in ``GET /runs/{run}/findings``."""

    id: str
    key: str
    code: str
    scenario: str
    severity: Severity
    state: AlertState
    confidence: float
    rank: int | None
    host: str | None
    worker: int | None
    pid: int | None
    sample_indices: list[int]
    began_at: float
    ended_at: float | None
    title: str
    cause: str
    advice: str
    evidence: list[Evidence]
    lost_s: float | None
    gain_ceiling_ratio: float | None
    stacks: list[Stack]
    folded: list[Folded] = []
    silenced_until: float | None = None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """A metric over time: ``t``, ``min``, ``mean`` and ``max`` are as long as there are buckets."""

    metric: str
    rank: int | None
    bucket_s: float
    t: list[float]
    min: list[float | None]
    mean: list[float | None]
    max: list[float | None]


class Heatmap(msgspec.Struct, frozen=True, kw_only=True):
    """A metric over time, a row of ``values`` per rank, shape (ranks, t)."""

    metric: str
    bucket_s: float
    ranks: list[int]
    t: list[float]
    values: list[list[float | None]]


class Epoch(msgspec.Struct, frozen=True, kw_only=True):
    """An epoch of a loader and what its boundaries cost."""

    rank: int
    loader: int
    epoch: int
    began_at: float
    iter_s: float | None
    sampler_s: float | None
    first_wait_s: float | None
    iter_kind: str | None
    workers: int | None
    drained: int | None
    gap_s: float | None
    ended_at: float | None
    teardown_s: float | None
    batches: int | None
    ended_by: str | None


class Fetches(msgspec.Struct, frozen=True, kw_only=True):
    """Fetches of a rank's workers, as columns of one length."""

    loader: list[int]
    worker: list[int]
    began_at: list[float]
    fetch_s: list[float | None]
    collate_s: list[float | None]
    cpu_s: list[float | None]
    samples: list[int | None]
    slow_index: list[int | None]
    slow_s: list[float | None]
    bytes: list[int | None]


class SlowSample(msgspec.Struct, frozen=True, kw_only=True):
    """The slowest reading of a dataset index."""

    rank: int
    loader: int
    worker: int
    index: int
    slow_s: float
    fetch_s: float | None
    at: float


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """What a process does now: worker -1 is the training process."""

    rank: int
    worker: int
    loader: int | None
    pid: int
    phase: PhaseName
    phase_age_s: float
    sample_index: int | None
    sample_age_s: float | None
    os_state: str | None  # letter of /proc/<pid>/stat
    wchan: str | None
    cpu_ratio: float | None
    rss_bytes: float | None
    threads: float | None
    fds: float | None
    alive: bool
    batches: int


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process on a GPU, most memory first. ``rank`` is null where it is not of this run."""

    pid: int
    rank: int | None
    memory_bytes: float | None
    sm_ratio: float | None
    name: str | None
    user: str | None


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU of a host and the processes on it, whoever they are of: ``GET /runs/{run}/gpus``. Means are of five seconds."""

    host: str
    gpu: int
    uuid: str
    name: str
    simulated: bool
    ranks: list[int]  # of this run
    looked_at: float | None
    utilization_ratio: float | None
    memory_used_bytes: float | None
    memory_total_bytes: float | None
    power_w: float | None
    power_limit_w: float | None
    sm_clock_hz: float | None
    temperature_c: float | None
    slowed_by: list[str]  # what holds its clock down
    processes: list[GpuProcess]


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A rank's part in one iteration, means over the iterations that all ranks have done; seconds."""

    rank: int
    iteration_s: float
    data_s: float  # waiting for its own loader
    own_s: float  # working
    others_s: float  # waiting for other ranks
    caused_s: float  # what a rank that waits for this one loses by it


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where some ranks stand while a run stands still. ``at``: the line, where that is not what ``stands`` says."""

    ranks: list[int]
    state: PlaceState
    collective: str | None
    stands: str
    at: str | None
    for_s: float | None
    stack: Stack | None


class Coupling(msgspec.Struct, frozen=True, kw_only=True):
    """Which ranks wait for which: ``GET /runs/{run}/coupling``."""

    state: CouplingState
    reason: str
    source: Literal["measured", "durations"] | None
    iterations: int
    waiting: list[int]
    waited_for: list[int]
    wait_s: float | None
    cause: Literal["data", "work"] | None
    where: str | None
    ranks: list[Share]
    places: list[Place]
    given_up_in_s: float | None
    timeout_s: float | None


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
