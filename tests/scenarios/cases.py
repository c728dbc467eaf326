"""Every scenario script with its expected verdict: one list for the tests and the benchmark.

A script may appear several times under different names, with other arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

NOT_HERE: Final = 77
"""With this code a script ends that cannot show its stall on this machine (``training.not_here``)."""


@dataclass(frozen=True)
class Case:
    """A script and the expected finding.

    An alert with one of ``scenarios`` ends the run early. Without ``scenarios`` the run is healthy or a
    look-alike: it must end by itself without an alert. ``rank``, ``worker`` and ``samples`` are the culprit.
    Title, cause or advice must contain the words of ``says``. A field that is None or empty is not checked.
    """

    script: str
    scenarios: tuple[str, ...] = ()
    group: str = ""  # the test module that plays it
    ranks: int = 1
    within_s: float = 30.0
    stacks: int = 0  # wait for those of so many processes, too
    python: tuple[str, ...] = ()  # options of the interpreter
    args: tuple[str, ...] = ()  # of the script
    name: str = ""  # the script's, if it is not played twice
    environ: dict[str, str] = field(default_factory=dict)
    before: tuple[
        str, ...
    ] = ()  # a command that starts the script's command, such as ("prlimit", "--nofile=256")
    rank: int | None = None
    worker: int | tuple[int, ...] | None = None
    samples: tuple[int, ...] = ()
    says: tuple[str, ...] = ()
    remark: bool = False  # it is right that nobody is woken: what is to be found has the severity "info"
    audit: str = ""  # not played: the check by which `loaderwatch doctor` keeps it from being run
    simulated: str = ""  # what of it is not real, such as "GPU": the bench's table says so
    package: str = "tests.scenarios"  # where the script is
    interpreter: str = sys.executable

    @property
    def id(self) -> str:
        """Unique among the cases."""
        return self.name or self.script


SMALLER: Final = ("--samples", "316", "--batch", "2", "--cpus", "2")
"""Batches of half a second at most, three slow samples per epoch, and two CPUs on any machine."""
FEW_FILES: Final = ("prlimit", "--nofile=300")
SMALL_SHM: Final = (
    "unshare",
    "-m",
    "sh",
    "-c",
    'mount -t tmpfs -o size=40m tmpfs /dev/shm && exec "$@"',
    "sh",
)
SMALL_DISK: Final = (
    "unshare",
    "-m",
    "sh",
    "-c",
    'mount -t tmpfs -o size=160m tmpfs /media && exec "$@"',
    "sh",
)
TINY_SHM: Final = (
    "unshare",
    "-m",
    "sh",
    "-c",
    'mount -t tmpfs -o size=24m tmpfs /dev/shm && exec "$@"',
    "sh",
)
"""A /dev/shm as a container has it; for mounting it one must be root."""
LAUNCHED: Final = (sys.executable, "-m", "loaderwatch", "run", "--")
"""For a script that does not name loaderwatch."""

CASES: Final[tuple[Case, ...]] = (
    # ---- input-bound
    Case("s01_serial", ("S01",), "input", says=("num_workers=0",)),
    Case("s01_bursts", ("S01",), "input", within_s=40, says=("ahead of time",)),
    Case("s01_row_groups", ("S01",), "input", within_s=40, says=("num_workers=0",)),
    Case("s49_lock", ("S49",), "input", within_s=40, says=("take turns on a shared lock", "its own handle")),
    Case("s49_file_lock", ("S49",), "input", within_s=40, says=("take turns on a shared lock",)),
    Case("s49_decoding", ("S49",), "input", within_s=40, says=("s49_decoding.py", "in decode")),
    Case("s49_sqlite", ("S49",), "input", within_s=50, says=("s49_sqlite.py", "in read", "was waiting")),
    Case("s49_filelock", ("S49",), "input", within_s=50, says=("s49_filelock.py", "in read")),
    Case("s49_manager", ("S49",), "input", within_s=50, says=("in object_of", "multiprocessing.Manager")),
    Case("s49_commits", ("S49",), "input", within_s=60, says=("in store",)),
    Case(
        "s08_answers", ("S08",), "input", within_s=60, stacks=1, says=("in all workers became", "in look_up")
    ),
    Case("s22_unanswered", ("S22",), "input", within_s=60, stacks=1, says=("mean a timeout", "in record")),
    Case("s49_polled", ("S49",), "input", within_s=50, says=("s49_polled.py", "in read", "share one lock")),
    Case("s49_writer", ("S49",), "input", within_s=60, says=("workers stop together", "in read")),
    Case("s15_mining", ("S15",), "input", within_s=50, says=("choosing the samples", "in hardest")),
    Case("s15_losses", ("S15",), "input", within_s=50, stacks=1, says=("the sampler needs", "in in_order")),
    Case("s02_few_workers", ("S02",), "input", says=("num_workers 2 →",)),
    Case("s02_unsplit", ("S02",), "input", says=("First split the samples", "Nothing in Lines")),
    Case("s07_cpu_bound", ("S07",), "workers", says=("no CPU is free",)),
    Case("s08_latency_bound", ("S08",), "input", says=("storage or network",)),
    Case("s08_network", ("S08",), "input", within_s=40, says=("storage or network",)),
    Case("s08_polled", ("S08",), "input", within_s=40, says=("storage or network",)),
    Case("s13_delivery", ("S13",), "workers", says=("More workers or more prefetch will not help",)),
    Case("s14_threads", ("S14",), "workers", says=("busy Python threads",)),
    Case("s20_slow_sample", ("S20",), "input", worker=(0, 1), samples=(333,)),
    Case("s20_split", ("S20",), "input", worker=(0, 1)),
    Case("s33_refill", ("S33",), "input", within_s=50, says=("a worker reads a whole block",)),
    Case("s33_row_groups", ("S33",), "input", within_s=50, says=("a worker reads a whole block",)),
    Case("s20_several", ("S20",), "input", within_s=50, says=("in_order=False",)),
    Case("s21_jitter", ("S21",), "workers", says=("prefetch_factor=",)),
    Case("s23_imbalance", ("S23",), "workers", within_s=40, says=("shards",)),
    # ---- input-bound because of the machine, the storage or the batch
    Case("s03_oversubscribed", ("S03",), "machine", says=("More workers would slow down",)),
    Case("s04_quota", ("S04",), "machine", says=("quota", "CPU limit")),
    Case("s05_affinity", ("S05",), "machine", says=("may use only 1 CPU",)),
    Case("s06_threads", ("S06",), "machine", says=("OPENBLAS_NUM_THREADS=1",)),
    Case("s09_thrash", ("S09",), "machine", says=("not the first epoch",)),
    Case("s10_throttled", ("S10",), "machine", within_s=40, says=("in all workers became", "burst")),
    Case("s11_amplified", ("S11",), "machine", says=("read", "chunk")),
    Case("s12_collate", ("S12",), "machine", says=("collate_fn takes",)),
    Case("s16_pin_thread", ("S16",), "machine", says=("larger tensors",), simulated="GPU, pinning"),
    Case("s25_workers", ("S25",), "machine", says=("worker_init_fn", "gc.collect()")),
    Case("s18_dispatch", ("S18",), "machine", ranks=2, rank=0, says=("reads for all 2 ranks",)),
    Case("s19_stateful", ("S19",), "machine", says=("snapshot_every_n_steps 1 →",)),
    # ---- "training stalls every few steps": one script, four settings, here with smaller batches
    Case(
        "repro_every_few_steps",
        ("S01",),
        "repro",
        name="repro_a",
        args=("A", *SMALLER),
        says=("num_workers=0",),
    ),
    Case(
        "repro_every_few_steps",
        ("S07",),
        "repro",
        name="repro_b",
        args=("B", *SMALLER),
        says=("no CPU is free",),
    ),
    Case("repro_every_few_steps", group="repro", name="repro_c", args=("C", *SMALLER), audit="refused"),
    Case(
        "repro_every_few_steps",
        ("S06",),
        "repro",
        name="repro_d",
        args=("D", *SMALLER),
        says=("in all on 2 CPUs",),
    ),
    Case(
        "repro_every_few_steps",
        ("S03",),
        "repro",
        name="repro_d_advised",
        args=("D", *SMALLER, "--threads", "1"),
        says=("num_workers 8 →",),
    ),
    # ---- epoch boundaries
    Case("s15_sampler", ("S15",), "epochs", says=("sampler",)),
    Case("s15_drawn_late", ("S15",), "epochs", within_s=60, says=("Draw only as many",)),
    Case("s28_restart", ("S28",), "epochs", within_s=40, says=("spawn", "persistent_workers=True")),
    Case(
        "s28_restart",
        ("S28",),
        "epochs",
        name="s28_rebuilt",
        args=("--rebuilt",),
        within_s=40,
        says=(
            "a new DataLoader is made for every epoch",
            "Make the DataLoader once",
            "persistent_workers=True",
        ),
    ),
    Case("s30_reset_drain", ("S30",), "epochs", says=("break",)),
    Case("s31_teardown", ("S31",), "epochs", within_s=40),
    Case("s32_rebuilt", ("S32",), "epochs", says=("next(iter(loader))",)),
    Case("s33_shuffle_buffer", ("S33",), "epochs", says=("shuffle buffer",)),
    # ---- hangs inside one process tree
    Case("s22_endless_loop", ("S22",), "hung", stacks=1, worker=1, samples=(333,)),
    Case("s35_fork_lock", ("S35",), "hung", stacks=1, worker=0, says=("futex",)),
    Case("s35_evaluation", ("S35",), "hung", within_s=60, stacks=1, says=("in an evaluation", "lock")),
    Case("s36_silent_read", ("S36",), "hung", stacks=1, worker=1, samples=(333,), says=("pipe",)),
    Case(
        "s36_silent_read",
        ("S36",),
        "folding",
        name="s36_slow_first",
        args=("--slow-first",),
        within_s=40,
        stacks=1,
        worker=1,
        samples=(1293,),
        says=("pipe",),
    ),
    Case("s22_retries", ("S22",), "hung", within_s=60, stacks=1, says=("typical of a retry loop",)),
    Case("s22_backoff", ("S22",), "hung", within_s=60, stacks=1, says=("computing without an end",)),
    Case(
        "s22_growing_pauses",
        ("S22",),
        "hung",
        within_s=60,
        stacks=1,
        worker=1,
        samples=(333,),
        says=("repeating the same attempt endlessly", "s22_growing_pauses.py"),
    ),
    Case("s36_stopped", ("S36",), "hung", worker=1, says=("kill -CONT",)),
    Case(
        "s22_caught", ("S22",), "hung", within_s=60, says=("has raised an error", "skips data after errors")
    ),
    Case("s37_caught", ("S37",), "hung", within_s=60, says=("has died", "tries again")),
    Case("s37_dead_worker", ("S37",), "hung", worker=1, says=("dead",)),
    Case("s41_lost_message", ("S41",), "hung", stacks=1),
    Case("s41_prefetch_thread", ("S41",), "hung", stacks=1),
    # ---- ranks that wait for each other
    Case("s43_straggler", ("S43",), "ranks", ranks=2, rank=1),
    Case("s44_unequal", ("S44",), "ranks", ranks=2, stacks=2, rank=1, says=("is now in `barrier`",)),
    Case(
        "s45_sends",
        ("S45",),
        "collectives",
        ranks=2,
        stacks=2,
        within_s=60,
        says=("in send", "none of them receives", "in pass_on"),
    ),
    Case(
        "s45_overflow",
        ("S45",),
        "collectives",
        ranks=2,
        stacks=2,
        within_s=60,
        says=(
            "rank 1 in `all_reduce` at",
            "in tell_of_overflow",
            "rank 0 in `all_reduce` at",
            "in average_gradients",
        ),
    ),
    Case(
        "s45_early_stop",
        ("S45",),
        "collectives",
        ranks=2,
        stacks=2,
        rank=1,
        within_s=60,
        says=("left the loop after epoch", "in report_when_all_are_done", "early stopping"),
    ),
    Case(
        "s45_alone",
        ("S45",),
        "collectives",
        ranks=2,
        stacks=2,
        within_s=60,
        args=("checkpoint",),
        name="s45_checkpoint",
        says=(
            "in `barrier` at s45_alone.py",
            "in save_checkpoint",
            "in `backward` at s45_alone.py",
            "Only the file is written by one rank",
        ),
    ),
    Case(
        "s45_alone",
        ("S45",),
        "collectives",
        ranks=2,
        stacks=2,
        within_s=60,
        args=("evaluation",),
        name="s45_evaluation",
        says=(
            "in `all_gather` at s45_alone.py",
            "in `backward` at s45_alone.py",
            "Evaluate on all ranks",
        ),
    ),
    Case(
        "s45_alone",
        ("S45",),
        "collectives",
        ranks=2,
        stacks=2,
        within_s=60,
        args=("cache",),
        name="s45_cache",
        says=("in `barrier` at s45_alone.py", "in build_index", "if rank == 0: build()"),
    ),
    Case(
        "s45_alone",
        ("S45",),
        "collectives",
        ranks=2,
        stacks=2,
        within_s=60,
        args=("branch",),
        name="s45_branch",
        says=(
            "in `all_gather` at s45_alone.py",
            "in `backward` at s45_alone.py",
            "find_unused_parameters",
        ),
    ),
    Case(
        "s45_alone",
        ("S45",),
        "collectives",
        ranks=2,
        stacks=2,
        within_s=60,
        args=("step",),
        name="s45_step",
        says=("in `all_gather` at s45_alone.py", "in `backward` at s45_alone.py", "or on none"),
    ),
    Case(
        "s45_alone",
        ("S45",),
        "collectives",
        ranks=2,
        stacks=2,
        within_s=60,
        args=("error",),
        name="s45_error",
        says=("in `barrier` at s45_alone.py", "in `backward` at s45_alone.py"),
    ),
    Case("s46_validation", ("S46",), "collectives", ranks=2, stacks=1, says=("buffer sync", "model.module")),
    Case("s46_validation", group="advised", ranks=2, args=("--advised",), name="s46_validation_advised"),
    Case("s46_validation", group="advised", ranks=2, args=("--no-buffer-sync",), name="s46_no_buffer_sync"),
    Case("s45_collectives", ("S45",), "collectives", ranks=2, stacks=1),
    Case("s47_one_rank", ("S47",), "collectives", ranks=2, stacks=1, says=("prepare",)),
    Case(
        "s47_stopped",
        ("S47",),
        "collectives",
        ranks=2,
        within_s=60,
        says=("stopped by a signal", "kill -CONT"),
    ),
    # ---- stuck outside the loader: in a save, or between two epochs
    Case("s52_save", ("S52",), "stuck", within_s=60, stacks=1, says=("in save", "named pipe")),
    Case(
        "s52_save",
        ("S52",),
        "stuck",
        within_s=90,
        stacks=1,
        args=("--between",),
        name="s52_save_between",
        says=("in save", "named pipe"),
    ),
    Case("s52_rank_saves", ("S52",), "stuck", ranks=2, within_s=90, stacks=1, says=("in upload", "pipe")),
    Case("s53_report", ("S53",), "stuck", within_s=90, stacks=1, says=("in report", "timeout")),
    Case(
        "s53_rank_locked", ("S53",), "stuck", ranks=2, within_s=90, stacks=1, says=("in log_metrics", "lock")
    ),
    Case("s53_trainer", ("S53",), "stuck", within_s=90, stacks=1, says=("in validate",)),
    Case(
        "s53_rank_reports",
        ("S53",),
        "stuck",
        ranks=2,
        within_s=90,
        stacks=1,
        says=("in write_metrics", "pipe"),
    ),
    Case(
        "s53_start_up",
        ("S53",),
        "stuck",
        ranks=2,
        within_s=90,
        stacks=1,
        says=("in download_tokenizer", "init_process_group"),
    ),
    # Between its epochs it has no other thread, so no stack of it can be taken.
    Case(
        "s53_dead_mount",
        ("S53",),
        "stuck",
        within_s=90,
        says=("outside the training loops", "uninterruptible kernel wait"),
    ),
    Case(
        "s53_dead_mount",
        ("S26",),
        "stuck",
        within_s=60,
        stacks=1,
        args=("--in-loop",),
        name="s26_dead_mount",
        says=("in wait_in_kernel", "uninterruptible kernel wait"),
    ),
    Case(
        "s53_rank_dead_mount",
        ("S53",),
        "stuck",
        ranks=2,
        within_s=90,
        stacks=1,
        says=("in wait_in_kernel", "uninterruptible kernel wait"),
    ),
    Case(
        "s53_rank_dead_mount",
        ("S52",),
        "stuck",
        ranks=2,
        within_s=90,
        stacks=1,
        args=("--save",),
        name="s52_rank_dead_mount",
        says=("in wait_in_kernel", "uninterruptible kernel wait"),
    ),
    Case("s53_exit", ("S53",), "stuck", ranks=2, within_s=90, stacks=1, says=("in send_results", "barrier")),
    Case(
        "s26_line_search",
        ("S26",),
        "stuck",
        within_s=60,
        stacks=1,
        says=("in one optimizer step", "s26_line_search.py:"),
    ),
    Case(
        "s26_pool",
        ("S26",),
        "stuck",
        within_s=60,
        stacks=1,
        says=("a pool of processes", "BrokenProcessPool"),
    ),
    Case(
        "s26_miner",
        ("S26",),
        "stuck",
        within_s=60,
        stacks=1,
        says=("in hard_examples", "1 child process has ended", "is_alive()"),
    ),
    Case(
        "s26_validation_locked", ("S26",), "stuck", within_s=60, stacks=1, says=("in update_metric", "lock")
    ),
    # ---- a thread of the training process reads the loader ahead
    Case("s54_thread", ("S02",), "threads", says=("num_workers 1 →",)),
    Case("s54_executor", ("S01",), "threads", says=("num_workers=0",)),
    Case("s54_own_work", ("S54",), "threads", says=("the prefetch thread of", "_fill")),
    Case("s54_dead", ("S41",), "threads", within_s=60, stacks=1, says=("fill", "OSError")),
    Case("s54_simple_queue_dead", ("S41",), "threads", within_s=60, stacks=1, says=("fill", "OSError")),
    Case("s54_swallowed", ("S41",), "threads", within_s=60, stacks=1, says=("fill", "stopped reading")),
    Case("s54_trained_in_thread", ("S02",), "threads", says=("num_workers 1 →",)),
    Case("s54_background_generator", ("S02",), "threads", says=("num_workers 1 →",)),
    Case("s54_polling_buffer", ("S01",), "threads", says=("num_workers=0",)),
    Case("s54_pipeline", ("S54",), "threads", says=("the prefetch thread of",)),
    Case(
        "s54_generator_dead",
        ("S41",),
        "threads",
        within_s=60,
        stacks=1,
        says=("normalize_ahead", "TypeError"),
    ),
    Case("n25_read_ahead", group="threads"),
    Case("s54_polled", ("S02",), "threads", within_s=40, says=("num_workers 1 →",)),
    Case("s54_asyncio", ("S01",), "threads", within_s=40, says=("num_workers=0",)),
    Case("s54_polled_dead", ("S41",), "threads", within_s=60, stacks=1, says=("collect", "ValueError")),
    # ---- long steps, for which the loader is not to blame
    Case("s25_collector", ("S25",), "steps", says=("gc.freeze()",)),
    Case(
        "s26_logging",
        ("S26",),
        "steps",
        within_s=40,
        stacks=1,
        remark=True,
        says=("not the data loader", "at s26_logging.py"),
    ),
    Case(
        "s26_written",
        ("S26",),
        "steps",
        within_s=40,
        stacks=1,
        says=("not the data loader", "in write_summary"),
    ),
    Case(
        "s26_looked_for",
        ("S26",),
        "steps",
        within_s=60,
        stacks=1,
        says=("not the data loader", "in next_settings", "The loop polls for something"),
    ),
    Case("s27_anew", ("S27",), "steps", within_s=60, stacks=1, says=("compil", "s27_anew.py")),
    Case("s26_posted", ("S26",), "steps", within_s=60, stacks=1, says=("the network", "in post_metrics")),
    Case("s26_piped", ("S26",), "steps", within_s=60, stacks=1, says=("a pipe", "in show_picture")),
    Case(
        "s26_grown",
        ("S26",),
        "steps",
        within_s=60,
        stacks=1,
        says=("growing script work", "in area_under_curve"),
    ),
    Case(
        "s26_hooked",
        ("S26",),
        "steps",
        within_s=75,
        stacks=1,
        says=("a slower model pass", "in keep_histogram", "hooks"),
    ),
    Case(
        "s26_hooked",
        ("S26",),
        "steps",
        name="s26_bank",
        args=("--bank",),
        within_s=75,
        stacks=1,
        says=("a slower model pass", "in forward", "bank"),
    ),
    Case(
        "s26_history",
        ("S26",),
        "steps",
        within_s=75,
        stacks=1,
        says=("slower steps (same batch size)", "in step", "retain_graph=True"),
    ),
    Case(
        "s14_telemetry",
        ("S14",),
        "steps",
        within_s=60,
        stacks=1,
        says=("another thread", "holds the GIL", "in sort_into_bins"),
    ),
    Case(
        "s26_scored",
        ("S26",),
        "steps",
        within_s=60,
        stacks=1,
        says=("in every step", "script code", "in overlap", "neither in the model"),
    ),
    Case("s27_shapes", ("S27",), "steps", within_s=40, says=("new size",)),
    Case("s27_padded", ("S27",), "steps", within_s=60, says=("times larger", "similar length")),
    Case(
        "s48_long_samples",
        ("S48",),
        "steps",
        ranks=2,
        rank=1,
        within_s=45,
        says=("times as large as those of the other ranks", "Distribute the long samples"),
    ),
    Case(
        "s26_denormals",
        ("S26",),
        "steps",
        within_s=75,
        says=("a slower optimizer", "set_flush_denormal"),
    ),
    Case("s48_throttled", ("S48",), "steps", ranks=2, simulated="GPU"),
    Case("s17_copies", ("S17",), "steps", says=("non_blocking=True",), simulated="GPU, copy"),
    Case("s34_fast_forward", ("S34",), "steps", remark=True, says=("ignore_data_skip",)),
    # ---- evaluation inside the training steps
    Case(
        "s55_slow_validation",
        ("S55",),
        "evaluation",
        within_s=40,
        says=("Evaluation waits for data", "Change the evaluation loader val_loader: Set num_workers="),
    ),
    Case(
        "s55_beams",
        ("S55",),
        "steps",
        within_s=60,
        remark=True,
        says=("of the run", "Evaluate less often"),
    ),
    Case("s55_slow_validation", group="evaluation", name="n20_validation_inside", args=("--quick",)),
    # ---- what runs out, before and after
    Case("s24_memory", ("S24",), "resources", within_s=40, says=("Limit every cache",)),
    Case("s24_losses", ("S24",), "resources", within_s=60, says=("the training process", "use .item()")),
    Case("s37_killed", ("S37",), "resources"),
    Case("s37_killed", ("S37",), "resources", name="s37_sigkill", args=("--kill",)),
    Case("s39_shared_memory", ("S39",), "resources", before=SMALL_SHM, says=("--shm-size",)),
    Case(
        "s39_shared_memory",
        ("S39",),
        "resources",
        name="s39_full",
        before=TINY_SHM,
        args=("--full",),
        says=("--shm-size",),
    ),
    Case("s40_descriptors", ("S40",), "resources", before=FEW_FILES, says=(".clone()",)),
    Case(
        "s40_descriptors",
        ("S40",),
        "resources",
        name="s40_exhausted",
        before=FEW_FILES,
        args=("--fast",),
        says=("ulimit -n",),
    ),
    Case(
        "s40_worker",
        ("S40",),
        "resources",
        before=FEW_FILES,
        within_s=60,
        says=("Worker", "does not close them"),
    ),
    Case("s40_handles", ("S40",), "resources", before=FEW_FILES, within_s=60, says=("Worker",)),
    Case(
        "s58_drift",
        ("S58",),
        "resources",
        within_s=100,
        remark=True,
        says=("the loop will wait for data in",),
    ),
    Case("s58_shortage", ("S58",), "resources", within_s=100, says=("fetches keep getting slower",)),
    Case("s56_disk", ("S56",), "resources", before=SMALL_DISK, within_s=90, says=("/media", "enough for")),
    Case(
        "s56_disk",
        ("S56",),
        "resources",
        name="s56_full",
        before=SMALL_DISK,
        args=("--fast",),
        within_s=60,
        says=("full", "Keep fewer checkpoints"),
    ),
    Case(
        "s56_other_rank",
        ("S56",),
        "resources",
        before=SMALL_DISK,
        ranks=2,
        within_s=90,
        says=("/media", "enough for"),
    ),
    Case("n27_keeps_two", group="resources", before=SMALL_DISK),
    Case("s42_start_up", ("S42",), "resources", name="s42_pickle", args=("pickle",), says=("module level",)),
    Case("s42_start_up", ("S42",), "resources", name="s42_guard", args=("guard",), says=("__main__",)),
    Case("s42_start_up", ("S42",), "resources", name="s42_daemon", args=("daemon",), says=("daemon",)),
    # ---- healthy runs and look-alikes
    Case("n07_debugger", group="healthy", within_s=-5),  # the longest first
    Case("healthy", group="healthy"),
    Case("healthy_ranks", group="healthy", ranks=2),
    Case("healthy_memory", group="healthy"),
    Case("healthy_checkpoint", group="healthy"),
    Case("n03_first_step", group="healthy"),
    Case("n04_cold_cache", group="healthy"),
    Case("healthy_validation", group="alike"),
    Case("n01_validation", group="alike"),
    Case("n02_checkpoint", group="alike"),
    Case("n05_accumulation", group="alike"),
    Case("n15_early_stop", group="alike"),
    Case("n22_slow_save", group="alike"),
    Case("n23_serving", group="alike"),
    Case("n24_own_evaluation", group="alike"),
    Case("n26_final_evaluation", group="alike", ranks=2, within_s=45),
    Case("n06_item", group="alike"),
    Case("s17_copies", group="alike", name="n06_waiting_copy", args=("--waits",), simulated="GPU, copy"),
    Case("n08_last_batch", group="alike"),
    Case("n09_throttle", group="alike"),
    Case("n10_reload", group="alike"),
    Case("s34_fast_forward", group="alike", name="n11_resume", args=("6",)),
    Case("n12_pause", group="alike", within_s=40),
    Case("n13_sigterm", group="alike"),
    Case("n14_idle_gpu", group="alike", simulated="GPU"),
    Case("n16_two_loaders", group="alike"),
    Case("n17_outage", group="alike", name="n17_refused", args=("refuses",), within_s=50),
    Case("n17_outage", group="alike", name="n17_silent", args=("silent",), within_s=40),
    Case("n17_outage", group="alike", name="n17_stopped", args=("stopped",), within_s=40),
    Case("n18_large_batches", group="alike", within_s=40),
    Case("n19_traced", group="alike"),
    # ---- stuck before the first batch, or after the last
    Case(
        "s53_rendezvous",
        ("S53",),
        "stuck",
        ranks=2,
        before=LAUNCHED,
        within_s=90,
        stacks=1,
        says=("in fetch_weights", "init_process_group"),
    ),
    Case(
        "s53_before_first_batch",
        ("S53",),
        "stuck",
        ranks=2,
        before=LAUNCHED,
        within_s=90,
        stacks=1,
        says=("in read_manifest", "broadcast"),
    ),
    Case("s36_first_batch", ("S36",), "start_end", within_s=90, stacks=1),
    Case(
        "s53_joins_at_exit",
        ("S53",),
        "start_end",
        within_s=90,
        stacks=1,
        says=("has finished", "in upload_metrics"),
    ),
    Case(
        "s53_thread_pool",
        ("S53",),
        "start_end",
        within_s=90,
        stacks=1,
        says=("has finished", "in upload_checkpoint"),
    ),
    Case(
        "s53_child_at_exit",
        ("S53",),
        "start_end",
        within_s=90,
        stacks=1,
        says=("has finished", "a child process"),
    ),
    Case(
        "s53_atexit",
        ("S53",),
        "start_end",
        within_s=90,
        stacks=1,
        says=("has finished", "in write_summary", "lock"),
    ),
    Case(
        "s36_worker_at_exit",
        ("S36",),
        "start_end",
        within_s=90,
        stacks=2,
        says=("has finished", "is still in dataset[", "in read", "SIGTERM"),
    ),
    Case(
        "s53_destroys_group",
        ("S53",),
        "start_end",
        ranks=2,
        within_s=90,
        stacks=1,
        says=("in write_results", "file lock", "has finished"),
    ),
    Case(
        "s26_compile",
        ("S26",),
        "start_end",
        within_s=90,
        stacks=1,
        says=("waits for its compiler processes",),
    ),
    # ---- trainings without a loader, which do not name loaderwatch either
    Case("s01_get_batch", ("S01",), "loaderless", before=LAUNCHED, says=("between two steps", "in burn")),
    Case(
        "s01_after_forward",
        ("S01",),
        "loaderless",
        before=LAUNCHED,
        within_s=60,
        says=("making data in the training loop", "in burn"),
    ),
    Case("s01_accumulated", ("S01",), "loaderless", before=LAUNCHED, says=("between two steps",)),
    Case(
        "s01_no_answer",
        ("S01",),
        "loaderless",
        before=LAUNCHED,
        within_s=60,
        says=("in log", "waits there for"),
    ),
    Case(
        "s01_saved", ("S01",), "loaderless", before=LAUNCHED, within_s=40, says=("in save", "Save less often")
    ),
    Case(
        "s41_actor_dead",
        ("S41",),
        "loaderless",
        before=LAUNCHED,
        within_s=60,
        stacks=1,
        says=("in learn", "its queue stays empty"),
    ),
    Case("s53_answer", ("S53",), "loaderless", before=LAUNCHED, within_s=60, stacks=1, says=("in ask",)),
    Case("n34_no_loader", group="loaderless", before=LAUNCHED, within_s=75),
    Case("n35_throttled_steps", group="loaderless", before=LAUNCHED, within_s=60),
    Case("n36_ticks", group="loaderless", before=LAUNCHED, within_s=60),
    Case("n39_acts", group="loaderless", before=LAUNCHED, within_s=60),
    Case("n41_plays", group="loaderless", before=LAUNCHED, within_s=60),
    Case("n42_scheduled", group="loaderless", before=LAUNCHED, within_s=75),
    # ---- what a person or a program pauses on purpose
    Case("n28_prompt", group="alike", within_s=60),
    Case("n37_batches_ahead", group="alike", within_s=60),
    Case("n38_fills_cache", group="alike", within_s=60),
    Case("n43_live", group="alike", within_s=60),
    # ---- memory that grows and does not run out
    Case("n61_fills_buffer", group="alike", within_s=60),
    Case("n61_fills_buffer", group="alike", within_s=60, args=("--cache",), name="n61_fills_cache"),
    Case("n62_loads_first", group="alike", ranks=2, before=LAUNCHED, within_s=75),
    Case("n63_large_activations", group="alike", within_s=75),
    Case("n40_longer_sequences", group="alike", within_s=75),
    Case("n30_rank_prepares", group="alike", ranks=2, before=LAUNCHED, within_s=75),
    Case("n31_thread_serves", group="alike", within_s=75),
    Case("n32_thread_uploads", group="alike", within_s=90),
    Case("n33_child_evaluates", group="alike", within_s=90),
)


def counts(case: Case, finding: Mapping[str, Any]) -> bool:
    """Whether the finding alerts somebody, or is the remark that the case expects.

    A finding about other programs on the CPUs does not count: it is true whenever the machine is busy.
    """
    if finding["scenario"] in case.scenarios:
        return case.remark or finding["severity"] != "info"
    return finding["severity"] != "info" and "Other programs on this host keep" not in finding["cause"]


def in_group(group: str) -> tuple[Case, ...]:
    """The cases that a test module plays."""
    return tuple(case for case in CASES if case.group == group)
