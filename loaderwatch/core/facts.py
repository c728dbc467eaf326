"""Facts of a run, as envelopes carry them: hosts, GPUs, processes, loaders, spans, stacks and losses.

For ``loaderwatch doctor``, also facts of a script that does not train: its loaders and a few samples' cost.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from loaderwatch.core.message import Text

MAX_NAME: Final = 500
MAX_RANKS: Final = 1 << 16

Int = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
"""An integer so small that the sum of two of them still fits the store's integers."""
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
    """The configuration of a watched loader. None where the loader has no such setting."""

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
    # Consecutive passes that began with the same epoch of a shuffling DistributedSampler.
    same_epoch_passes: int | None = None
    shards: int | None = None  # files or parts that an iterable dataset distributes to ranks and workers
    # An iterable dataset splits its rows among workers. False: each worker returns all rows.
    splits_by_worker: bool | None = None
    snapshot_every_n_steps: int | None = None  # torchdata's StatefulDataLoader
    reader: str | None = None  # function or thread that iterates it beside the loop; None: the loop
    # The type of the error that ended the reader; "": the reader ended before its pass, and why is not known.
    reader_error: str | None = None
    # Not a loader: the time from an optimizer step to the model's next call, in a loaderless training.
    between_steps: bool = False
    # Not a loader: in that time the model is called without gradients, either many times now and then, or
    # some times in each, as in an agent or an evaluation.
    acts: bool = False
    autotuned: str | None = None  # the last change of attach(autotune=True), in words
    cached_batches: Int = 0  # batches that are repeated instead of reading new ones


class FlightEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One collective in PyTorch's flight recorder."""

    number: Int  # within its group, from 1, the same on all ranks
    what: str  # "nccl:all_reduce"
    state: str  # "scheduled" | "started" | "completed"
    at: str | None = None  # the line of the user's code


class FlightGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The newest collectives of one process group, as its rank dumped them; the oldest first."""

    group: str
    written_ns: Int  # UTC
    entries: list[FlightEntry]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A framework's progress by its own count, published when a stage or an epoch begins."""

    framework: str
    framework_version: str
    stage: str | None  # "train" | "validate" | "test" | "predict" | "sanity check"; None: no stage any more
    epoch: Int | None = None  # from 0
    max_epochs: Int | None = None
    global_step: Int | None = None
    at_steps: Int = 0  # our own count at that moment


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call on the stack from which the training loader is iterated."""

    file: str
    function: str
    line: Int
    loop: tuple[Int, Int] | None = None  # lines of the outermost loop around it; None: none, or not examined
    # The body of the loop that takes the loader's batches. "skips": it skips some rounds with `continue` or
    # only calls next(). "nothing": it is empty.
    body: Literal["skips", "nothing"] | None = None
    # In bytes, for a call of the model where Python reports it (3.11): a line may have several statements.
    column: Int | None = None


class FailedSample(msgspec.Struct, frozen=True, kw_only=True):
    """The sample or batch of the fetch error that ended its training process."""

    loader: Int
    worker: Int  # -1: the training process, which reads itself
    # The number of samples that may have failed: 1, or those of a batch that is read or collated at once.
    samples: Int = 0
    indices: list[Int | str] = []  # their indices, if numbers or text; the first ones of a large batch
    # The indices are the numbers of an iterable dataset's samples in that process, from 0.
    counted: bool = False
    collating: bool = False  # the samples were read, and joining them failed
    # The innermost line of the script, else the first one of a library, such as torchvision's datasets.
    at: Call | None = None
    error: str = ""  # the error's type and its message's last line; "" where that is redacted


class OutputFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that receives the job's stdout or stderr, in its state when the job began."""

    name: str  # "stdout", "stderr", or "output" for both
    path: str
    device: int
    inode: int
    size: int  # bytes in it before the job


class ProcessInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One training process: its identity, its configuration, and whether it is alive."""

    pid: Int
    rank: Rank
    local_rank: Rank
    world_size: Int
    started_ns: Int  # UTC
    state: ProcessState = "live"
    exit: str | None = None  # its last words: "exit code 1", "uncaught ValueError: ..."; None without any
    steps: Int | None = None  # training steps at its end, from its ring; None while it is alive
    exit_code: Int | None = None  # from the kernel: 3 is exit code 3, -9 is SIGKILL; None if not known
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
    # Why forward and backward are not timed: "optimizer", "model" or "many" (docs/http-api.md).
    phases_missing: str | None = None
    progress: Progress | None = None  # None: no framework reports any
    faults: Int = 0  # our own faults that the guard swallowed, in the process and in its workers
    tripped: bool = False
    cuda: bool = False
    # It computes on another stream: its GPU is busy (NVML) while its events say "starved". None: no NVML yet.
    other_stream: bool | None = False
    # OMP_NUM_THREADS and similar variables, if they are set.
    thread_limits: Annotated[dict[str, str], msgspec.Meta(max_length=100)] | None = None
    synced_buffers: Int | None = None  # buffers that DDP broadcasts in each forward; None: not a DDP model
    has_stderr: bool = True  # False: stderr was closed at the start, so descriptor 2 is another file
    backend: str | None = None  # of the default process group: "gloo", "nccl"; None: there is no group
    collective_timeout_s: float | None = None  # after which that group aborts a collective
    flight_dump: str | None = None  # where PyTorch's flight recorder writes when a collective times out
    flight: list[FlightGroup] = []  # the collectives in that dump
    terminal: bool = False  # its standard input is a terminal
    # Where the training loader is iterated, the outermost call first; the streamer sends the calls in a loop.
    calls: list[Call] = []
    model_calls: list[Call] = []  # where the model is called to train; for the streamer, which sends none
    failed: FailedSample | None = None  # the cause of its death, if a fetch raised the error
    last_lines: dict[str, list[str]] = {}  # of the job's stdout and stderr, if the process crashed
    redact: bool = False  # the streamer replaces paths, messages and arguments before they leave the host

    @property
    def trains_without_loader(self) -> bool:
        """Whether it trains only between its optimizer's steps; a loader that trains takes over the pass."""
        training = [loader.between_steps for loader in self.loaders if loader.role == "train"]
        return bool(training) and all(training)


class SpanInfo(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The open span of a process when the envelope was made. None where not known."""

    rank: Rank
    worker: Int  # -1: the training process
    pid: Int
    phase: PhaseName
    since_ns: Int  # UTC
    step_since_ns: Int | None = None  # UTC, when the step of this phase began
    loader: Int | None = None
    epoch: Int | None = None
    batch: Int | None = None
    step: Int | None = None
    awaited_worker: Int | None = None
    sample_index: Int | None = None
    sample_since_ns: Int | None = None  # UTC
    batches: Int = 0  # of all loaders
    # Training steps in this process: optimizer steps, else batches from training loaders.
    steps: Int = 0
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
    sm_ratio: float | None = None  # share of the time with a kernel of it on the GPU, 0 to 1
    name: str | None = None  # of the program
    user: str | None = None


class GpuState(msgspec.Struct, frozen=True, kw_only=True):
    """The activity of one GPU of the host, by all its users. None where not known."""

    gpu: Int
    utilization_ratio: float | None = None  # mean since the previous state, 0 to 1
    memory_used_bytes: float | None = None
    memory_total_bytes: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    sm_clock_hz: float | None = None
    temperature_c: float | None = None
    throttle_reasons: Int | None = None  # bits of nvml.h
    processes: list[GpuProcess] = []


class HostInfo(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Facts of the host that rarely change."""

    name: HostName
    cpus: Int
    usable_cpus: float | None = None
    memory_bytes: Int | None = None
    shm_bytes: Int | None = None
    boot_id: str | None = None
    gpu_status: str = ""  # ``gpu_status_text`` in English; "" when there are GPU charts
    gpu_status_text: Text | None = None  # why there are no GPU charts; None from an older streamer
    filling_disk: str | None = None  # mount point of the file system that the job will fill first


SWING_HIGH_RATIO: Final = 0.70
SWING_LOW_RATIO: Final = 0.10
"""A GPU swings if its utilization goes from above the first to below the second, 0 to 1.

Source: SageMaker Debugger's LowGPUUtilization rule (95th percentile above 70 %, 5th below 10 %).
"""
GPU_IDLE: Final = "GPU idle"
"""Why a stack was taken: low phase of a GPU that swings."""
LONG_STEP: Final = "long step"
"""Why a stack was taken: the step takes far longer than the usual one."""
OPEN_SPAN: Final = "open span"
"""Why a stack was taken: the process has been in one span for a long time."""
AT_END: Final = "end of the process"
"""The phase, in the evidence of a hang, of a process whose script is over."""
LOCK_WAIT: Final = "lock wait"
"""Why a stack was taken: while the loop waited for data, a worker waited for a lock or answer, or slept."""
ANSWER_WAIT: Final = "wait for an answer"
"""Why a stack was taken: within a step, a training process waited for another process or machine."""
BETWEEN_STEPS: Final = "between two steps"
"""Why a stack was taken: without a loader, between an optimizer step and the model's next call."""
SCRIPT_WORK: Final = "script's own work"
"""Why a stack was taken: much of a step goes to code outside the model and the optimizer."""
LONGER_STEP: Final = "longer step"
"""Why a stack was taken, in the model or the optimizer: the steps take longer than before."""
HELD_RATIO: Final = 0.2
"""Two minimum shares, 0 to 1, for a training thread from which another thread may hold the interpreter.

The first is the share of a second in which the training thread neither runs nor lacks a CPU. The second is
the other threads' share of a core meanwhile. On a machine with full CPUs, neither share exceeds this.
"""
WOKEN_PER_S: Final = 60.0
"""How often such a thread must be woken, per second of that time, to ask for the interpreter's lock again.

CPython's interval of 5 ms (``sys.getswitchinterval``) wakes it 200 times, if nothing else blocks it.
"""
INTERPRETER_HELD: Final = "interpreter held"
"""Why a stack was taken: another thread seems to keep the training thread from running."""
AT_WORK: Final = "reader at work"
"""Why a stack was taken: while the loop waited for data, a worker or the training process computed."""


class StackDump(msgspec.Struct, frozen=True, kw_only=True):
    """Stacks of one process in faulthandler's format: most recent call first."""

    rank: Rank
    worker: Int
    pid: Int
    taken_ns: Int  # UTC
    text: str
    # "open span", "long step", "requested", "GPU idle", "lock wait", "wait for an answer", "between two
    # steps", "reader at work", "script's own work", "longer step", or why there is no stack.
    why: str = ""
    wchan: str | None = None  # the kernel function of its main thread at that moment
    # Its main thread sleeps in a short ``while`` loop of the innermost function, as a loop that polls.
    polls: bool = False
    # Its main thread is at a statement of the training loop that makes the model's arguments.
    feeds: bool = False


NATIVE_FILE: Final = "<native>"
"""The file of a sampled stack's innermost frame that is a function in C, C++ or Rust."""


class ProfileStack(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The text of a sampled stack, in faulthandler's format: most recent call first.

    The rows of the table "profile" name it by ``id``, a random number of the streamer: it reveals nothing of
    the text. Other streamers have other numbers for the same text.
    """

    id: Int
    text: str


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Records that were lost before they could be sent."""

    what: str  # "ring" | "outbox" | "torn" | "time"
    rank: Rank
    count: Int
    t_ns: Int


class LoaderProbe(msgspec.Struct, frozen=True, kw_only=True):
    """A few samples of a loader's dataset, read and collated in a forked child. None: not known."""

    loader: int
    samples: int = 0  # how many were read
    batch: int = 0  # samples per batch
    wall_s: float | None = None  # time to read and collate them, without the thread's waits for a CPU
    cpu_s: float | None = None  # CPU time of all threads meanwhile
    main_cpu_s: float | None = None  # the reading thread's part of ``cpu_s``
    threads: int | None = None  # the reading thread, and the threads that reading started
    bytes: int | None = None  # tensor and array bytes of the collated samples
    read_bytes: int | None = None  # read from files or sockets meanwhile
    tensors: int | None = None  # tensors in a batch
    arrays: int | None = None  # NumPy arrays in a batch
    objects: int | None = None  # strings, numbers and other objects in a batch
    error: str | None = None  # the error that reading raised
    died: str | None = None  # the signal that ended the reading process
    unfinished_s: float | None = None  # it was still reading, or pickling, after this time
    # Size of the dataset, collate_fn and worker_init_fn, if workers do not inherit them.
    pickle_bytes: int | None = None
    pickle_s: float | None = None
    pickle_error: str | None = None  # begins with the object: "dataset.transform: …"


class LoaderTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A loader that was read for some seconds with one setting of its workers, without training."""

    num_workers: int
    prefetch_factor: int | None  # None without workers
    batches: int  # how many were read
    batches_per_s: float  # once they came steadily
    start_s: float  # from the beginning of the pass to its first batch
    # A reader's share of waiting, if it sleeps for a step between batches; None: it never slept.
    wait_ratio: float | None = None
    batch_bytes: int = 0  # tensors and arrays of a batch
    worker_bytes: int | None = None  # the workers' private memory


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """The trials of a loader, and the advised setting."""

    loader: str  # its name
    made_at: str | None = None  # file and line of its construction
    num_workers: int  # the script's setting
    prefetch_factor: int | None = None
    step_s: float | None = None  # of a training step, if given
    trials: list[LoaderTrial] = []
    advised_workers: int | None = None  # None: nothing could be tried
    advised_prefetch: int | None = None
    stopped: Text | None = None  # why the trials stopped before the answer was known
    notes: list[Text] = []
    error: str | None = None  # why nothing could be tried


class ScriptReport(msgspec.Struct, frozen=True, kw_only=True):
    """One process of a script when its training was about to begin."""

    process: ProcessInfo
    probes: list[LoaderProbe] = []
    refusal: str | None = None  # the error that DataLoader itself raised, with the call's arguments
    refused_line: str | None = None  # the line of that call
    main_guard: bool | None = None  # the script has ``if __name__ == "__main__"``
    made_at: dict[int, str] = {}  # by loader: file and line of its construction
    # Loaders whose sampler needs set_epoch, which the script's own source never mentions.
    epoch_never_set: list[int] = []
    ended: str | None = None  # how the script ended, if it ended by itself
    tuning: Tuning | None = None  # if requested
