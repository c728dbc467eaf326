"""The one catalogue of what is recorded: ring records, table columns, phases and their codes.

A *record* is one fact of fixed size that a training process or a DataLoader worker writes into its ring. A
*table* has the same facts as columns, on the wire and in the store. Both are defined only here. A column's
position in ``RECORD_FIELDS`` is its position in the ring slot.

Conventions: nanoseconds are int64. An unknown value is ``UNKNOWN`` (int64) or NaN (float64), never 0.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

UNKNOWN: Final = -(2**63)
"""The int64 for "not known" in records and integer columns."""


class RecordKind(enum.IntEnum):
    """The kind of record in a ring slot."""

    STEP = 1
    EPOCH_BEGIN = 2
    EPOCH_END = 3
    PHASE = 4
    FETCH = 5
    GPU_WAIT = 6
    COLLECTION = 7
    SAMPLE_TIMEOUT = 8


class Phase(enum.IntEnum):
    """The current activity of a process: the kind of its open span.

    OUTSIDE..USER are states of a training process, IDLE..COLLATE of a worker.
    """

    OUTSIDE = 0  # attached, no loader is being iterated
    ITER = 1  # inside iter(loader): worker start, sampler, reset drain
    WAIT = 2  # inside next(loader): data wait
    STEP = 3  # in the loop body, between a batch's delivery and the next request
    H2D = 4
    FORWARD = 5
    BACKWARD = 6
    OPTIMIZER = 7
    TEARDOWN = 8  # inside the next() that found the epoch exhausted, or dropping the iterator
    USER = 9  # inside loaderwatch.phase(name)
    IDLE = 20  # worker: waiting for indices
    FETCH = 21  # worker: reading samples
    COLLATE = 22  # worker: joining samples into a batch
    STARTING = 23  # worker: between process start and its first wait for indices


class IterKind(enum.IntEnum):
    """How an epoch's iterator was made."""

    IN_PROCESS = 0  # num_workers=0: fetched on the training thread
    STARTED = 1  # worker processes were started
    RESET = 2  # persistent workers were reset
    WRAPPED = 3  # any other iterable
    REBUILT = 4  # worker processes were started by a recreated loader


class ReadBy(enum.IntEnum):
    """Which thread iterates a loader, and so whose waits and work a step's record describes."""

    LOOP = 0  # the training thread
    THREAD = 1  # another thread, whose own waits are recorded; the loop's waits for it are not known
    AHEAD = 2  # another thread: the loop's waits for it, but the thread's request, ready batches and CPU time


class EndedBy(enum.IntEnum):
    """How an epoch ended."""

    EXHAUSTED = 1
    BREAK = 2  # the iterator was dropped or reset before StopIteration
    ERROR = 3  # next() raised another error
    WORKER_DIED = 4  # next() raised an error, because one of its workers had died
    LEFT_AFTER_DEATH = 5  # as BREAK, after one of its workers had died


class Outcome(enum.IntEnum):
    """What happened to a sample that took too long."""

    RAISED = 0  # an error ended its fetch
    SKIPPED = 1  # its batch was delivered without it
    ENDED = 2  # its worker was ended


class ProfilePart(enum.IntEnum):
    """The part of a training to which a sampled stack belongs."""

    FETCH = 1  # reading samples and collating them, in a worker or on the training thread
    STEP = 2  # the loop's own code in a step, and steps that became longer
    EVALUATION = 3  # the loop's own code with batches of an evaluation loader
    BOUNDARY = 4  # iter(), the teardown of an epoch, and the script's code between two epochs


class ThreadState(enum.IntEnum):
    """What a thread does, as the kernel sees it."""

    RUNNING = 1
    RUNNABLE = 2  # ready to run, but no CPU is free
    DISK = 3
    NETWORK = 4
    LOCK = 5  # a futex or a file lock
    PIPE = 6
    CHILD = 7  # the end of a child process
    TIMER = 8  # it sleeps for a set time
    WAITING = 9  # for anything else


RECORD_FIELDS: Final[dict[RecordKind, tuple[str, ...]]] = {
    # One per delivered batch, written when its step ends: next request, end of the epoch, or abandonment.
    RecordKind.STEP: (
        "loader",  # loader id within the process; only the records of training loaders are training steps
        "epoch",  # of this loader, from 0
        "batch",  # within the epoch, from 0
        # Finished optimizer steps if an optimizer is watched, else batches of this loader, of any role.
        "step",
        "request_ns",  # when next(loader) was entered (monotonic in the ring, UTC in tables)
        "wait_ns",  # data wait: time inside next(loader)
        "wait_cpu_ns",  # training-thread CPU time inside it
        "ready",  # batches ready but unread at entry (result queue, plus pinned queue)
        "cached",  # batches received out of order at entry
        "awaited_worker",  # worker whose batch had to come next
        # From delivery to the next request, except the waits and the work for other watched loaders.
        "step_ns",
        "h2d_ns",  # from delivery to the model's first call, if its arguments are tensors on a device
        "forward_ns",
        "backward_ns",
        "optimizer_ns",
        "nested_ns",  # the rest of that time: waits for other watched loaders, and work with their batches
        "off_main_thread",  # ReadBy: not 0 if another thread than the training thread iterates
        # Calls of optimizer.step() in step_ns; with none watched, 0 if another loader began the step.
        "optimizer_steps",
        "collective_ns",  # DDP's own exchange of buffers and gradients, a part of forward and backward
    ),
    # One per iter(loader), written when its first batch is delivered or the epoch ends without one.
    RecordKind.EPOCH_BEGIN: (
        "loader",
        "epoch",
        "request_ns",  # when iter(loader) was entered
        "iter_ns",  # time inside iter(loader)
        "iter_cpu_ns",
        "sampler_ns",  # until the sampler returned its first index
        "first_wait_ns",  # the first next()
        "iter_kind",  # IterKind
        "workers",
        "drained",  # batches of the previous epoch that a reset discarded
        "gap_ns",  # end of this loader's previous epoch to this request
    ),
    RecordKind.EPOCH_END: (
        "loader",
        "epoch",
        "request_ns",  # when the next() that detected the end was entered, or the iterator was dropped
        "teardown_ns",  # how long that took
        "batches",
        "ended_by",  # EndedBy
    ),
    RecordKind.PHASE: (
        "name",  # index into ProcessInfo.phase_names
        "request_ns",
        "duration_ns",
        "step",
    ),
    # One per batch a worker fetched (or the training process itself with num_workers=0: worker = -1).
    RecordKind.FETCH: (
        "loader",
        "worker",
        "ordinal",  # batches fetched by this worker before this one
        "request_ns",  # when the fetch began
        "fetch_ns",  # reading and collating
        "collate_ns",
        "cpu_ns",  # worker main-thread CPU time
        "idle_ns",  # waiting for indices before this fetch
        "samples",
        "slow_index",  # dataset index of the slowest sample
        "slow_ns",
        "bytes",  # tensor bytes of the batch
    ),
    # Read from CUDA events some steps later.
    RecordKind.GPU_WAIT: (
        "loader",
        "epoch",
        "batch",
        "request_ns",
        "starved_ns",  # the GPU's idle time between request and delivery of this batch
        "gpu_step_ns",  # stream time from delivery to the next request
        "slack_ns",  # lower bound of the work that the GPU had left when the batch was requested
        "gpu_h2d_ns",  # stream time of the phases, in some steps; UNKNOWN in the others
        "gpu_forward_ns",
        "gpu_backward_ns",
        "gpu_optimizer_ns",
    ),
    # One per pause of Python's garbage collector that is long enough to notice.
    RecordKind.COLLECTION: (
        "worker",  # -1: the training process
        "request_ns",  # when it began
        "duration_ns",
        "generation",
        "collected",  # objects it freed
    ),
    # One per sample that took longer than attach(sample_timeout=) allows.
    RecordKind.SAMPLE_TIMEOUT: (
        "loader",
        "worker",  # -1: the training process
        "request_ns",  # when its reading began
        "duration_ns",  # until the sample was given up
        "limit_ns",
        # Dataset index; for an iterable dataset, the sample's number in its process; UNKNOWN for a batch.
        "index",
        "outcome",  # Outcome
    ),
}

SLOT_FIELDS: Final = 22
"""int64 fields of a ring slot: sequence, kind, up to 19 payload fields, sequence again."""

DType = Literal["i8", "f8"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: its name (with unit) and its type on the wire and in the store."""

    name: str
    dtype: DType


Values: TypeAlias = dict[str, float | int | None]
"""A row's values by column name; None where not known."""
Row: TypeAlias = tuple[float | int | None, ...]
"""A table's row in the order of its columns."""


def _ints(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, "i8") for name in names)


def _floats(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, "f8") for name in names)


def _of_record(kind: RecordKind) -> tuple[Column, ...]:
    return _ints("rank", *RECORD_FIELDS[kind])


TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "steps": _of_record(RecordKind.STEP),
    "epoch_begins": _of_record(RecordKind.EPOCH_BEGIN),
    "epoch_ends": _of_record(RecordKind.EPOCH_END),
    "phases": _of_record(RecordKind.PHASE),
    "fetches": _of_record(RecordKind.FETCH),
    "gpu_waits": _of_record(RecordKind.GPU_WAIT),
    "collections": _of_record(RecordKind.COLLECTION),
    "sample_timeouts": _of_record(RecordKind.SAMPLE_TIMEOUT),
    # NVML, 10 Hz. ``gpu`` is the index into Envelope.gpus of the same host; ``rank`` is UNKNOWN if no rank
    # here uses it. Ranks that share a GPU have one row each.
    "gpus": _ints("rank", "gpu", "t_ns")
    + _floats(
        "utilization_ratio",
        "memory_utilization_ratio",
        "memory_used_bytes",
        "memory_total_bytes",
        "power_w",
        "power_limit_w",
        "sm_clock_hz",
        "memory_clock_hz",
        "pcie_rx_bytes_per_s",
        "pcie_tx_bytes_per_s",
        "temperature_c",
    )
    + _ints("throttle_reasons", "other_pids")
    + _floats(
        "process_memory_bytes",  # of the rank's own process on this GPU
        "process_sm_ratio",  # SM utilization by that process; NaN without a sample, as for an idle process
    ),
    # The host, 1 Hz.
    "hosts": _ints("t_ns")
    + _floats(
        "cpu_ratio",  # busy share of all CPUs
        "usable_cpus",  # min(affinity, cgroup quota)
        "quota_cpus",  # cgroup CPU quota; NaN when there is none
        "throttled_ratio",  # share of cgroup periods throttled since the last sample
        "load1",
        "memory_available_bytes",
        "memory_total_bytes",
        "psi_cpu_some_ratio",
        "psi_io_some_ratio",
        "psi_io_full_ratio",
        "psi_memory_some_ratio",
        "psi_memory_full_ratio",
        "shm_total_bytes",
        "shm_used_bytes",
        "disk_read_bytes_per_s",
        "disk_write_bytes_per_s",
        "network_rx_bytes_per_s",
        "streamer_cpu_ratio",
        "streamer_rss_bytes",
        "memory_limit_bytes",  # tightest limit of the training process's control groups; NaN without a limit
        "memory_used_bytes",  # in that group, without page cache that can be dropped
        "oom_kills",  # cumulative, in that group
        "refault_bytes_per_s",  # file pages that are read again soon after their eviction from the page cache
        "memory_limit_hits",  # cumulative: how often that group reached its limit and had to reclaim
        "filling_disk_total_bytes",  # the file system that the job will fill first; NaN if it fills none
        "filling_disk_free_bytes",
        "filling_disk_bytes_per_s",  # decrease of its free space
        "filling_disk_save_bytes",  # size of one decrease; NaN if the free space decreases all the time
        "filling_disk_seen_s",  # how long this decrease has gone on
    ),
    # Training processes (worker = -1) and their DataLoader workers, 1 Hz. state: ord() of the letter in /proc
    "processes": _ints("rank", "loader", "worker", "pid", "t_ns", "state")
    + _floats(
        "cpu_ratio",  # of one core since the last sample
        "rss_bytes",
        "threads",
        "fds",
        "read_bytes",  # cumulative, from storage
        "read_chars",  # cumulative, any read()
        "voluntary_switches",  # cumulative
        "involuntary_switches",
        "major_faults",
        "affinity_cpus",
        "fd_limit",  # soft limit of open descriptors
        "anonymous_bytes",  # resident memory that belongs to no file and is not shared memory
        "pss_bytes",  # proportional share of a worker's anonymous memory, read now and then; NaN in between
        "run_delay_ratio",  # share of the time since the last sample in which its main thread lacked a CPU
        "main_cpu_ratio",  # of one core, the main thread of a training process
        "pin_cpu_ratio",  # of one core, the busiest thread that pins memory; NaN without one
        "written_chars",  # cumulative: any write(), or changes in mapped files if these are more
        "lock_wait",  # 1 while its main thread waits for a lock (a futex or a file lock), else 0
        # Only for a training process that has been in one span for long, outside its loaders; else NaN.
        "threads_switches_per_s",  # wakeups of its other thread with most wakeups
        "children_switches_per_s",  # the same for the main threads of its descendants, without its workers
        "children_cpu_ratio",  # of one core, by all those descendants
        "timer_wait",  # 1 while its main thread sleeps for a set time, else 0
        "holds_file_lock",  # 1 while it holds a file lock that excludes others, else 0
        # 1 while its main thread waits for another process or machine (a socket, a pipe, a child), else 0.
        "answer_wait",
        # As for threads_switches_per_s: ended processes that it started and has not waited for.
        "children_ended",
    ),
    # Counts of sampled stacks in the last ``PROFILE_S`` seconds. They are samples at random moments.
    "profile": _ints(
        "rank",
        "loader",  # UNKNOWN outside loaders
        "worker",  # -1: the training process
        "t_ns",  # when the counts were taken
        "part",  # ProfilePart
        "state",  # ThreadState
        "stack",  # ``facts.ProfileStack.id``; 0: the stack could not be read, or is a rare one
        "samples",  # how many samples had this stack
        "readers",  # sum over these samples: how many workers of the rank fetched at that moment
    ),
}
"""Every table of the wire and the store. There, ``request_ns`` and ``t_ns`` are UTC nanoseconds."""

_NOTHING: Final[dict[str, Values]] = {
    table: dict.fromkeys(column.name for column in columns) for table, columns in TABLES.items()
}


def pack_row(table: str, values: Values) -> Row:
    """Return named values in the order of the table's columns; a missing name is a value that is not known.

    Raises:
        KeyError: a name is not a column of the table.
    """
    nothing = _NOTHING[table]
    row = nothing | values  # in the order of the catalogue; unknown names come last
    if len(row) != len(nothing):
        raise KeyError(f"{table} has no {', '.join(sorted(values.keys() - nothing.keys()))}; see TABLES")
    return tuple(row.values())


LATER_COLUMNS: Final[dict[str, frozenset[str]]] = {
    "steps": frozenset({"collective_ns"}),
    "gpu_waits": frozenset(
        {"slack_ns", "gpu_h2d_ns", "gpu_forward_ns", "gpu_backward_ns", "gpu_optimizer_ns"}
    ),
    "gpus": frozenset({"process_memory_bytes", "process_sm_ratio"}),
    "hosts": frozenset(
        {
            "memory_limit_bytes",
            "memory_used_bytes",
            "oom_kills",
            "refault_bytes_per_s",
            "memory_limit_hits",
            "filling_disk_total_bytes",
            "filling_disk_free_bytes",
            "filling_disk_bytes_per_s",
            "filling_disk_save_bytes",
            "filling_disk_seen_s",
        }
    ),
    "processes": frozenset(
        {
            "fd_limit",
            "anonymous_bytes",
            "pss_bytes",
            "run_delay_ratio",
            "main_cpu_ratio",
            "pin_cpu_ratio",
            "written_chars",
            "lock_wait",
            "threads_switches_per_s",
            "children_switches_per_s",
            "children_cpu_ratio",
            "timer_wait",
            "holds_file_lock",
            "answer_wait",
            "children_ended",
        }
    ),
}
"""Columns that came after the first version: older envelopes and files lack them, so they are unknown."""

KIND_TABLE: Final[dict[RecordKind, str]] = {
    RecordKind.STEP: "steps",
    RecordKind.EPOCH_BEGIN: "epoch_begins",
    RecordKind.EPOCH_END: "epoch_ends",
    RecordKind.PHASE: "phases",
    RecordKind.FETCH: "fetches",
    RecordKind.GPU_WAIT: "gpu_waits",
    RecordKind.COLLECTION: "collections",
    RecordKind.SAMPLE_TIMEOUT: "sample_timeouts",
}

WHOLE_TABLES: Final = ("epoch_begins", "epoch_ends", "sample_timeouts")
"""Tables of which detectors get all rows, not only recent ones: an epoch is long, a lost sample stays so."""

PROFILE_S: Final = 10.0
"""How often the counts of sampled stacks are sent."""

LEAST_SAMPLES: Final = 20
"""Samples of stacks from which on shares are told: half of 20 means 30 to 70 % of the time (95 %)."""

LEARNED_FROM: Final = ("steps", "fetches", "phases")
"""Tables from which the limits of a hang are learned."""

TIME_COLUMN: Final[dict[str, str]] = {
    name: "t_ns" if any(c.name == "t_ns" for c in columns) else "request_ns"
    for name, columns in TABLES.items()
}
"""The column of each table that places a row in time."""

BAD_REASONS: Final[dict[int, str]] = {
    0x08: "hardware-slowdown",
    0x20: "software-thermal-slowdown",
    0x40: "hardware-thermal-slowdown",
    0x80: "hardware-power-brake",
}
"""Bits of ``throttle_reasons`` that mean a fault, and their choices in the message ``throttle-reason``.

The bits are NVML's clocks event reasons (nvml.h). A software power cap is usually benign; health checks of
clusters ignore it, too (azurehpc#595).
"""
BAD_BITS: Final = sum(BAD_REASONS)
