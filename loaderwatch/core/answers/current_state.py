"""The current state of processes and GPUs, and which ranks wait for which."""

from __future__ import annotations

from typing import Literal

import msgspec

from loaderwatch.core.answers.basics import CouplingState, PlaceState, Stack
from loaderwatch.core.facts import PhaseName
from loaderwatch.core.message import Text


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """The current state of a process: worker -1 is the training process."""

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
    """A process on a GPU, sorted by most memory. ``rank`` is None for a process outside this run."""

    pid: int
    rank: int | None
    memory_bytes: float | None
    sm_ratio: float | None
    name: str | None
    user: str | None


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """A host's GPU and all its processes: ``GET /runs/{run}/gpus``. Means are over five seconds."""

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
    slowed_by: list[str]  # what limits its clock: ``slowed_by_texts`` in English
    processes: list[GpuProcess]
    slowed_by_texts: list[Text] = []  # none from a server of an older version


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A rank's part in one iteration, in seconds: means over the iterations that all ranks have completed."""

    rank: int
    iteration_s: float
    data_s: float  # waiting for its own loader
    own_s: float  # working
    others_s: float  # waiting for other ranks
    caused_s: float  # how long a rank that waits for this one loses because of it


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where some ranks are while a run makes no progress. ``at``: the line, unless ``stands`` says it.

    ``stands`` and ``at`` are ``stands_text`` and ``at_text`` in English.
    """

    ranks: list[int]
    state: PlaceState
    collective: str | None
    stands: str
    at: str | None
    for_s: float | None
    stack: Stack | None
    stands_text: Text | None = None  # None from a server of an older version
    at_text: Text | None = None


class Coupling(msgspec.Struct, frozen=True, kw_only=True):
    """Which ranks wait for which: ``GET /runs/{run}/coupling``."""

    state: CouplingState
    reason: str  # ``reason_text`` in English
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
    reason_text: Text | None = None
