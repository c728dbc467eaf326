"""Facts of a run, as envelopes carry them: hosts, GPUs, processes, their loaders and spans, stacks and losses.

And those of a script that does not train, which ``loaderwatch doctor`` learns: its loaders, and what a few samples cost.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from loaderwatch.core.message import Text

MAX_NAME: Final = 500
MAX_RANKS: Final = 1 << 16

Int = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
"""An integer so small that the sum of two still fits the store's integers."""
Rank = Annotated[int, msgspec.Meta(ge=-1, lt=MAX_RANKS)]
HostName = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]

LoaderRole: TypeAlias = Literal["train", "eval"]
ProcessState: TypeAlias = Literal["live", "finished", "crashed"]
PhaseName: TypeAlias = Literal[
    "outside", "iter", "wait", "step", "h2d", "forward", "backward", "optimizer", "teardown", "user",
    "idle", "fetch", "collate", "starting",
]  # fmt: skip
"""The names of ``records.Phase`` in lower case."""


class LoaderInfo(msgspec.Struct, frozen=True, kw_only=True):
    """How a watched loader is configured. None where the loader has no such notion."""

    loader: Int
    name: str
    role: LoaderRole
    class_name: str
    dataset_class: str | None = None
    dataset_length: int | None = None
    batches: int | None = None
    batch_size: int | None = None
    num_workers: int | None = None
    prefetch_factor: int | None = None
    persistent_workers: bool | None = None
    pin_memory: bool | None = None
    in_order: bool | None = None
    drop_last: bool | None = None
    timeout_s: float | None = None
    start_method: str | None = None
    iterable_dataset: bool | None = None
    sampler_class: str | None = None
    distributed: bool | None = None  # the sampler gives each rank its own part
    same_epoch_passes: int | None = (
        None  # passes in a row that began with the same epoch of a shuffling DistributedSampler
    )
    shards: int | None = None  # files or parts that an iterable dataset deals out to ranks and workers
    splits_by_worker: bool | None = (
        None  # an iterable dataset deals its rows out among workers; False: each worker gives all of them
    )
    snapshot_every_n_steps: int | None = None  # torchdata's StatefulDataLoader
    reader: str | None = (
        None  # the function (or thread) that iterates it beside the loop; None: the loop itself
    )
    reader_error: str | None = (
        None  # the type of the error that ended that; "": it ended before its pass did, and why is not known
    )
    between_steps: bool = (
        False  # no loader: what a training without one does from an optimizer step to the model's next call
    )
    acts: bool = False  # no loader: the model is called without gradients in that time, many times now and then or some in each, as an agent's or in an evaluation
    autotuned: str | None = None  # what attach(autotune=True) changed last, in words
    cached_batches: Int = 0  # batches that are given again in place of what it would read


class FlightEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One collective in the memory of PyTorch's flight recorder."""

    number: Int  # of its group, from 1, the same on all ranks
    what: str  # "nccl:all_reduce"
    state: str  # "scheduled" | "started" | "completed"
    at: str | None = None  # the line of the user's code


class FlightGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The newest collectives of one process group, as its rank dumped them; the oldest first."""

    group: str
    written_ns: Int  # UTC
    entries: list[FlightEntry]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a framework is by its own count, published as a stage or an epoch begins."""

    framework: str
    framework_version: str
    stage: str | None  # "train" | "validate" | "test" | "predict" | "sanity check"; None: at none any more
    epoch: Int | None = None  # from 0
    max_epochs: Int | None = None
    global_step: Int | None = None
    at_steps: Int = 0  # our own count at that moment


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call on the stack from which the training loader is iterated."""

    file: str
    function: str
    line: Int
    loop: tuple[Int, Int] | None = (
        None  # first and last line of the outermost loop around it; None: in none, or not looked for yet
    )
    body: Literal["skips", "nothing"] | None = (
        None  # of the loop that takes the loader's batches: it leaves some of its rounds out with `continue` or only calls next(); or it does nothing
    )
    column: Int | None = (
        None  # in bytes, of a model's call where Python tells it (3.11); a line may hold several statements
    )


class FailedSample(msgspec.Struct, frozen=True, kw_only=True):
    """The sample, or the batch, at which a fetch raised the error that its training process died of."""

    loader: Int
    worker: Int  # -1: the training process, which reads itself
    samples: Int = (
        0  # how many there may be that failed: 1, or those of a batch that is read or collated at once
    )
    indices: list[
        Int | str
    ] = []  # of these, as far as they are numbers or text; the first ones of a large batch
    counted: bool = (
        False  # they are no indices but the numbers of an iterable dataset's samples in that process, from 0
    )
    collating: bool = False  # the samples were read, and joining them failed
    at: Call | None = (
        None  # the innermost line of the script, else the first one of a library, as of torchvision's datasets
    )
    error: str = ""  # its type and the last line of its message; "" where that is redacted


class OutputFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the job's stdout or stderr goes to, as it was when the job began."""

    name: str  # "stdout", "stderr", or "output" where both go there
    path: str
    device: int
    inode: int
    size: int  # bytes in it before


class ProcessInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One training process: who it is, and whether it lives."""

    pid: Int
    rank: Rank
    local_rank: Rank
    world_size: Int
    started_ns: Int  # UTC
    state: ProcessState = "live"
    exit: str | None = None  # its last words: "exit code 1", "uncaught ValueError: ..."; None if it said none
    steps: Int | None = (
        None  # training steps that it had done when it ended, as its ring says; None while it lives
    )
    exit_code: Int | None = None  # as the kernel has it: 3 is exit code 3, -9 is SIGKILL; None if not known
    name: str = ""  # script
    argv: list[str] = []
    cwd: str = ""
    python: str = ""
    torch: str | None = None
    gpu_uuid: str | None = None
    loaders: list[LoaderInfo] = []
    phase_names: list[str] = []
    has_model: bool = False
    has_optimizer: bool = False
    phases_missing: str | None = (
        None  # why forward and backward are not timed: "optimizer", "model" or "many" (docs/http-api.md)
    )
    progress: Progress | None = None  # None: no framework tells
    faults: Int = 0  # our own faults that the guard swallowed, there and in its workers
    tripped: bool = False
    cuda: bool = False
    other_stream: bool | None = (
        False  # NVML shows its GPU busy in what its events call starved: it computes on another stream; None: NVML has yet to tell
    )
    thread_limits: Annotated[dict[str, str], msgspec.Meta(max_length=100)] | None = (
        None  # OMP_NUM_THREADS and the like, as far as they are set
    )
    synced_buffers: Int | None = (
        None  # buffers that a DDP model sends around in each forward; None: no DDP model
    )
    has_stderr: bool = True  # False: started with it closed, so that descriptor 2 is some other file
    backend: str | None = None  # of the default process group: "gloo", "nccl"; None: there is no group
    collective_timeout_s: float | None = None  # after which that group gives a collective up
    flight_dump: str | None = None  # where PyTorch's flight recorder writes when a collective times out
    flight: list[FlightGroup] = []  # the collectives in that dump
    terminal: bool = False  # its standard input is a terminal
    calls: list[
        Call
    ] = []  # from where the training loader is iterated, outermost first; the streamer sends those in a loop
    model_calls: list[
        Call
    ] = []  # from where the model is called to train; for the streamer, which sends none of them
    failed: FailedSample | None = None  # what it died of, where a fetch raised that
    last_lines: dict[str, list[str]] = {}  # of the job's stdout and stderr, when the process has crashed
    redact: bool = (
        False  # the streamer replaces paths, messages and arguments before anything leaves the host
    )

    @property
    def trains_without_loader(self) -> bool:
        """Whether it trains between the steps of its optimizer only: that ends as soon as a loader trains, whose pass it is then."""
        training = [loader.between_steps for loader in self.loaders if loader.role == "train"]
        return bool(training) and all(training)


class SpanInfo(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The open span of a process at the moment the envelope was made. None where not known."""

    rank: Rank
    worker: Int  # -1: the training process
    pid: Int
    phase: PhaseName
    since_ns: Int  # UTC
    step_since_ns: Int | None = None  # UTC, when the step began that the phase is a part of
    loader: Int | None = None
    epoch: Int | None = None
    batch: Int | None = None
    step: Int | None = None
    awaited_worker: Int | None = None
    sample_index: Int | None = None
    sample_since_ns: Int | None = None  # UTC
    batches: Int = 0  # of all loaders
    steps: Int = (
        0  # of the training, in this process: optimizer steps, else batches taken from training loaders
    )
    samples: Int = 0
    phase_name: str | None = None
    alive: bool = True
    os_state: str | None = None  # letter of /proc/<pid>/stat
    wchan: str | None = None
    read_chars: Int | None = None
    traced: bool | None = None  # a debugger is attached


class GpuInfo(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One GPU of the host."""

    gpu: Int
    uuid: str
    name: str
    rank: Rank | None = None
    simulated: bool = False


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process on a GPU, of this run or not. None where not known."""

    pid: Int
    rank: Rank | None = None  # of this run
    memory_bytes: float | None = None
    sm_ratio: float | None = None  # share of the time in which it had a kernel on the GPU, 0 to 1
    name: str | None = None  # of its program
    user: str | None = None


class GpuState(msgspec.Struct, frozen=True, kw_only=True):
    """What one GPU of the host does, whoever uses it. None where not known."""

    gpu: Int
    utilization_ratio: float | None = None  # mean since the state before, 0 to 1
    memory_used_bytes: float | None = None
    memory_total_bytes: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    sm_clock_hz: float | None = None
    temperature_c: float | None = None
    throttle_reasons: Int | None = None  # bits of nvml.h
    processes: list[GpuProcess] = []


class HostInfo(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Facts of the host, which hardly change."""

    name: HostName
    cpus: Int
    usable_cpus: float | None = None
    memory_bytes: Int | None = None
    shm_bytes: Int | None = None
    boot_id: str | None = None
    gpu_status: str = ""  # ``gpu_status_text`` in English; "" when there are GPU charts
    gpu_status_text: Text | None = (
        None  # why there are no GPU charts; None from a streamer of an older version
    )
    filling_disk: str | None = None  # where the file system is mounted that the job will fill first


SWING_HIGH_RATIO: Final = 0.70
SWING_LOW_RATIO: Final = 0.10
"""A GPU swings when its utilization is from the first to below the second, 0 to 1: SageMaker Debugger's LowGPUUtilization rule,
95th percentile from 70 % and 5th below 10 %."""
GPU_IDLE: Final = "GPU idle"
"""Why a stack was taken in the low phase of a GPU that swings."""
LONG_STEP: Final = "long step"
"""Why a stack was taken in a step that takes far longer than the usual one."""
OPEN_SPAN: Final = "open span"
"""Why a stack was taken of a process that has been in one span for long."""
AT_END: Final = "end of the process"
"""What the evidence of a hang calls the phase of a process whose script is over."""
LOCK_WAIT: Final = "lock wait"
"""Why a stack was taken of a worker that waited for a lock, slept, or waited for an answer, while the loop waited for data."""
ANSWER_WAIT: Final = "wait for an answer"
"""Why a stack was taken of a training process that waited for another process or machine within a step."""
BETWEEN_STEPS: Final = "between two steps"
"""Why a stack was taken of a training process without a loader, between an optimizer step and the model's next call."""
SCRIPT_WORK: Final = "script's own work"
"""Why a stack was taken of a training process in a step, outside of the model and the optimizer, where much of its time goes."""
LONGER_STEP: Final = "longer step"
"""Why a stack was taken of a training process in its model or its optimizer, since its steps take longer than they did."""
HELD_RATIO: Final = 0.2
"""Share of a second, 0 to 1, in which a training thread neither runs nor lacks a CPU, and what the other threads of its process use of a
core meanwhile, both at least, where one of them may hold the interpreter. On a full machine it is no more than that."""
WOKEN_PER_S: Final = 60.0
"""How often such a thread is woken per second of that, at least, to ask for the interpreter's lock again: 200 times by CPython's
interval of 5 ms (``sys.getswitchinterval``), if nobody else keeps it from running."""
INTERPRETER_HELD: Final = "interpreter held"
"""Why a stack was taken of a training process whose training thread another one seems to keep from running."""
AT_WORK: Final = "reader at work"
"""Why a stack was taken of a process that computed on a sample while the loop waited for data: a worker, or the training process."""


class StackDump(msgspec.Struct, frozen=True, kw_only=True):
    """Stacks of one process, as faulthandler wrote them: most recent call first."""

    rank: Rank
    worker: Int
    pid: Int
    taken_ns: Int  # UTC
    text: str
    why: str = ""  # "open span", "long step", "requested", "GPU idle", "lock wait", "wait for an answer", "between two steps", "reader at work", "script's own work", "longer step", or why there is none
    wchan: str | None = None  # the kernel function in which its main thread stood when it was asked
    polls: bool = False  # its main thread sleeps in a short ``while`` loop of the innermost function, as one that looks for something again and again
    feeds: bool = False  # its main thread is at a statement of the training loop that makes what the model is called with


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Records that fell out before they could be sent."""

    what: str  # "ring" | "outbox" | "torn" | "time"
    rank: Rank
    count: Int
    t_ns: Int


class LoaderProbe(msgspec.Struct, frozen=True, kw_only=True):
    """A few samples of a loader's dataset, read and collated in a forked child as a worker does. None: not known."""

    loader: int
    samples: int = 0  # how many were read
    batch: int = 0  # samples of a batch
    wall_s: float | None = None  # reading and collating them, less what the thread waited for a CPU
    cpu_s: float | None = None  # CPU time of all threads meanwhile
    main_cpu_s: float | None = None  # of that, the thread that reads
    threads: int | None = None  # the reading thread, and those that reading started
    bytes: int | None = None  # tensor and array bytes of the collated samples
    read_bytes: int | None = None  # read from files or sockets meanwhile
    tensors: int | None = None  # tensors in a batch
    arrays: int | None = None  # NumPy arrays in a batch
    objects: int | None = None  # strings, numbers and other objects in a batch
    error: str | None = None  # what reading them raised
    died: str | None = None  # the signal that ended the process which read them
    unfinished_s: float | None = None  # it was still reading, or pickling, after so long
    pickle_bytes: int | None = (
        None  # dataset, collate_fn and worker_init_fn, when workers do not inherit them
    )
    pickle_s: float | None = None
    pickle_error: str | None = None  # begins with what it is: "dataset.transform: …"


class LoaderTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A loader that was read for some seconds with one setting of its workers, without training."""

    num_workers: int
    prefetch_factor: int | None  # None without workers
    batches: int  # how many were read
    batches_per_s: float  # once they came steadily
    start_s: float  # from the beginning of the pass to its first batch
    wait_ratio: float | None = (
        None  # of the time of a reader that sleeps for a step between batches; None: it never slept
    )
    batch_bytes: int = 0  # tensors and arrays of a batch
    worker_bytes: int | None = None  # memory that the workers share with nobody


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """What was tried with a loader, and which setting is advised."""

    loader: str  # its name
    made_at: str | None = None  # file and line of its construction
    num_workers: int  # as the script has it
    prefetch_factor: int | None = None
    step_s: float | None = None  # of a training step, where it was given
    trials: list[LoaderTrial] = []
    advised_workers: int | None = None  # None: nothing could be tried
    advised_prefetch: int | None = None
    stopped: Text | None = None  # why no more was tried, where that was not because the answer was known
    notes: list[Text] = []
    error: str | None = None  # what kept it from being tried


class ScriptReport(msgspec.Struct, frozen=True, kw_only=True):
    """One process of a script, at the moment its training was about to begin."""

    process: ProcessInfo
    probes: list[LoaderProbe] = []
    refusal: str | None = None  # what DataLoader itself raised, with the call's arguments
    refused_line: str | None = None  # the line of that call
    main_guard: bool | None = None  # the script has ``if __name__ == "__main__"``
    made_at: dict[int, str] = {}  # by loader: file and line of its construction
    epoch_never_set: list[
        int
    ] = []  # loaders whose sampler needs set_epoch, which the script's own source never names
    ended: str | None = None  # how the script ended when it did so by itself
    tuning: Tuning | None = None  # where that was asked for
