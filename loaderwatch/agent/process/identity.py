"""Identity of this process in its run: rank, process group, GPU, and a run id that all ranks derive alike."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import re
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from loaderwatch.agent.accelerator import computing_device
from loaderwatch.agent.guard import ask
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.facts import MAX_NAME
from loaderwatch.core.system import boot_id

THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "TOKENIZERS_PARALLELISM",
)
"""The environment variables that limit the threads of numeric libraries."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks of this process, as torchrun defines them."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1


@dataclass(frozen=True, slots=True)
class RunName:
    """The run's id, for machines, and its name, for people."""

    run_id: str
    name: str


def find_ranks(environ: Mapping[str, str] | None = None) -> Ranks:
    """Return the ranks, from ``torch.distributed`` if initialized, else from torchrun, Slurm or Lightning."""
    env = os.environ if environ is None else environ
    local = _number(env, "LOCAL_RANK")
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        rank = distributed.get_rank()
        if local is None:
            local = _number(env, "SLURM_LOCALID") if is_srun(env) else None
        return Ranks(rank, rank if local is None else local, distributed.get_world_size())
    rank, world = _number(env, "RANK"), _number(env, "WORLD_SIZE")
    if rank is not None and world is not None:
        return Ranks(rank, rank if local is None else local, world)
    if is_srun(env):
        rank = _number(env, "SLURM_PROCID")
        world = _number(env, "SLURM_STEP_NUM_TASKS") or _number(env, "SLURM_NTASKS")
        if rank is not None and world is not None:
            return Ranks(rank, _number(env, "SLURM_LOCALID") or 0, world)
    # Lightning's variables: only on the first node, the local rank is the rank.
    if local is not None and world is not None and _number(env, "NODE_RANK") == 0:
        return Ranks(local, local, world)
    return Ranks()


def group_facts(environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return facts of the default process group, which contains all ranks; each is None where not known.

    They are ``backend``, ``collective_timeout_s`` and ``flight_dump`` (flight recorder) of ``ProcessInfo``.
    """
    env = os.environ if environ is None else environ
    backend = timeout_s = dump = None
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        backend = str(distributed.get_backend())
        timeout_s = ask(lambda: _timeout_s(distributed, backend))
        prefix = env.get("TORCH_FR_DUMP_TEMP_FILE") or env.get("TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
        if prefix:  # else PyTorch's default path applies, which varies with the version and is shared by jobs
            dump = f"{prefix}{distributed.get_rank()}"
    return {"backend": backend, "collective_timeout_s": timeout_s, "flight_dump": dump}


def _timeout_s(distributed: Any, backend: str) -> float | None:
    """Return the timeout, from a private function (since PyTorch 2.0); if it fails, one fact is missing."""
    torch = sys.modules["torch"]
    device = torch.device("cuda" if "nccl" in backend else "cpu")
    timeout = distributed.group.WORLD._get_backend(device).options._timeout
    return timeout.total_seconds() if isinstance(timeout, timedelta) else None


def is_srun(env: Mapping[str, str]) -> bool:
    """Whether srun started this process. In the batch script itself, SLURM_PROCID means nothing."""
    return "SLURM_JOB_ID" in env and "SLURM_STEP_ID" in env and "SLURM_PROCID" in env


def find_run(name: str | None, environ: Mapping[str, str] | None = None, *, redact: bool = False) -> RunName:
    """Return the run of this process.

    Args:
        name: the user's name; None derives one from facts that all ranks share and that differ between runs.
        environ: the environment to look into.
        redact: leave the script's name out of a derived name.

    Raises:
        ConfigError: the name has no letter or digit.
    """
    env = os.environ if environ is None else environ
    if name is not None:
        slug = slugged(name)
        if not slug:
            raise ConfigError(f"run is {name!r}; use a name with letters or digits, such as 'resnet-lr3'")
        return RunName(slug, name[:MAX_NAME])
    mark = hashlib.sha256("\0".join(shared_facts(env)).encode()).hexdigest()[:8]
    if redact:
        return RunName(f"run-{mark}", f"run-{mark}")
    script = script_name()
    return RunName(f"{slugged(script)[:48] or 'run'}-{mark}", script)


def shared_facts(env: Mapping[str, str]) -> list[str]:
    """Return facts that are equal on every rank of this run and differ in the next run, as far as they exist.

    A multi-node torchrun with a fixed ``--rdzv-id`` and endpoint looks the same every time. So do nodes that
    are started by hand and meet at one address. Such runs must be named with LOADERWATCH_RUN.
    """
    if "RANK" in env and "WORLD_SIZE" in env and "MASTER_ADDR" in env:
        facts = [
            "torchrun",
            env.get("TORCHELASTIC_RUN_ID", ""),
            env["MASTER_ADDR"],
            env.get("MASTER_PORT", ""),
            env.get("TORCHELASTIC_RESTART_COUNT", ""),
            env.get("SLURM_JOB_ID", ""),
        ]
        if env.get("LOCAL_WORLD_SIZE", "") == env["WORLD_SIZE"]:
            facts += parent_facts()
        return facts
    if is_srun(env):
        return ["slurm", env["SLURM_JOB_ID"], env["SLURM_STEP_ID"], env.get("SLURM_RESTART_COUNT", "")]
    if multiprocessing.parent_process() is not None:
        return ["spawn", *parent_facts()]
    first = first_rank(env)
    started = launched_with(first)
    # Nodes started by hand. A cluster may also set the other variables for scripts that are not ranks.
    if "NODE_RANK" in started and "MASTER_ADDR" in started and (_number(started, "WORLD_SIZE") or 1) > 1:
        return ["nodes", started["MASTER_ADDR"], started.get("MASTER_PORT", "")]
    return ["single", *process_facts(first)]


def facts_on_host(env: Mapping[str, str]) -> list[str]:
    """Return facts that this run's processes on this host share, and that differ in the next run."""
    facts = shared_facts(env)
    if facts[0] == "nodes":
        return [*facts, *process_facts(first_rank(env))]
    if facts[0] != "torchrun":
        return facts
    # srun itself may have started the ranks, with one shell for each.
    if is_srun(env) and "TORCHELASTIC_RUN_ID" not in env:
        return [*facts, env["SLURM_STEP_ID"]]
    return [*facts, *process_facts(_launcher())]


def _launcher() -> int:
    """Return the pid of the launcher: the nearest ancestor that is not a rank itself."""
    pid = os.getppid()
    while "LOCAL_RANK" in launched_with(pid) and (status := _status(pid)):
        pid = int(status[1])
    return pid


def first_rank(env: Mapping[str, str]) -> int:
    """Return the pid of the run's first process on this host: Lightning's first rank, or this process.

    Lightning starts the script again for each further rank, long after the first rank was attached. So the
    first rank is the parent of the others.
    """
    local = _number(env, "LOCAL_RANK")
    is_later_rank = (
        local is not None
        and local > 0
        and "MASTER_ADDR" in env
        and "LOCAL_RANK" not in launched_with(os.getppid())
    )
    return os.getppid() if is_later_rank else os.getpid()


def launched_with(pid: int) -> dict[str, str]:
    """Return the environment at a process's start, without later changes; empty where unknown."""
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (word.decode(errors="replace").partition("=") for word in words if b"=" in word)
    return {name: value for name, _, value in pairs}


def parent_facts() -> list[str]:
    """Return what identifies the launcher on this host."""
    parent = multiprocessing.parent_process()
    return process_facts(parent.pid if parent is not None and parent.pid is not None else os.getppid())


def process_facts(pid: int) -> list[str]:
    """Return facts that identify a process of this host, also if its pid is used again later."""
    return [socket.gethostname(), str(pid), start_time(pid)]


def start_time(pid: int) -> str:
    """Return when a process started, in clock ticks since boot; "" where the system does not say."""
    status = _status(pid)
    return f"{boot_id()} {status[19]}" if status else ""


def _status(pid: int) -> list[str]:
    """Return the fields after a process's name in /proc: state, parent's pid, ...; empty if unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return stat.rpartition(")")[2].split()


def script_name() -> str:
    """Return the script's or module's name, for people."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name not in ("__main__", "__mp_main__"):
        return str(spec.name).removesuffix(".__main__")
    first = sys.argv[0] if sys.argv else ""
    stem = Path(first).stem
    if stem in ("", "-c", "-m", "-"):
        return "python"
    return "notebook" if stem in ("ipykernel_launcher", "colab_kernel_launcher") else stem


def slugged(name: str) -> str:
    """Make a run id from a name: at most 64 of a-z 0-9 _ -, beginning with a letter or digit."""
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:64]


def find_gpu_uuid(
    environ: Mapping[str, str] | None = None, driver: Path = Path("/proc/driver/nvidia")
) -> str | None:
    """Return the UUID of this process's GPU, from CUDA once in use, else the environment; None in doubt."""
    env = os.environ if environ is None else environ
    cuda: Any = sys.modules.get("torch.cuda")
    if cuda is not None and cuda.is_initialized():
        device = computing_device(cuda, env)
        uuid = None if device is None else getattr(cuda.get_device_properties(device), "uuid", None)
        return None if uuid is None else f"GPU-{uuid}"
    visible = _visible_gpus(env)
    local = _number(env, "LOCAL_RANK")
    if len(visible) == 1:
        chosen = visible[0]
    elif local is not None and 0 <= local < len(visible):
        # This is the convention. A process that computes on another GPU corrects it at its first use of CUDA.
        chosen = visible[local]
    else:
        return None
    if chosen.isdecimal():
        # CUDA numbers the GPUs that a container or cgroup allows in its own order. So a number identifies a
        # GPU only if there is a single one.
        return _only_gpu(driver) if int(chosen) == 0 else None
    return chosen


def _visible_gpus(env: Mapping[str, str]) -> list[str]:
    """Return the entries of CUDA_VISIBLE_DEVICES up to the first that CUDA does not understand."""
    entries = (entry.strip() for entry in env.get("CUDA_VISIBLE_DEVICES", "").split(","))
    return [*takewhile(lambda entry: entry.isdecimal() or entry.startswith(("GPU-", "MIG-")), entries)]


def _only_gpu(driver: Path) -> str | None:
    """Return the UUID of this machine's GPU, if it has exactly one."""
    try:
        (information,) = driver.glob("gpus/*/information")
        match = re.search(r"^GPU UUID:\s*(GPU-[0-9a-fA-F-]+)\s*$", information.read_text(), re.MULTILINE)
    except (OSError, ValueError):
        return None
    return None if match is None else match[1]  # None before the GPU's first use: the file has question marks


def thread_limits(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables that limit the threads of numeric libraries, if they are set."""
    env = os.environ if environ is None else environ
    return {name: env[name][:40] for name in THREAD_VARIABLES if env.get(name)}


def _number(env: Mapping[str, str], name: str) -> int | None:
    try:
        return int(env[name])
    except (KeyError, ValueError):
        return None
