"""A training process that died of its loader: S37 killed, S39 shared memory, S40 descriptors, S42 at start-up. Code ``crashed``.

What it died of is in its last words, which tools and people misread alike: "Killed" is memory nine times of ten, "Bus
error" is /dev/shm (pytorch#5040), "received 0 items of ancdata" is descriptors (pytorch#973).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loaderwatch.core.wire import LoaderInfo
from loaderwatch.detect.finding import Evidence, Finding
from loaderwatch.detect.limits import Limits
from loaderwatch.detect.phrases import size
from loaderwatch.detect.robust import known
from loaderwatch.detect.window import HostWindow, RankWindow, RunWindow

CODE = "crashed"
_SHM = re.compile(
    r"insufficient shared memory|Bus error|unable to (?:write|resize|open|mmap|allocate) .*(?:shm|shared memory|torch_|bytes)"
    r"|No space left on device",
    re.IGNORECASE,
)
_FDS = re.compile(
    r"Too many open files|ancdata|communication with the workers is no longer possible", re.IGNORECASE
)
_KILLED = re.compile(
    r"worker \(pid(?:\(s\))? (?P<pid>\d+)\) is killed by signal: (?P<signal>[A-Za-z0-9 ]+)",
    re.IGNORECASE,
)
_GONE = re.compile(r"worker \(pid\(s\) (?P<pid>[\d, ]+)\) exited unexpectedly", re.IGNORECASE)
_CUT = re.compile(
    r"^(?:uncaught )?(?:EOFError|ConnectionResetError|BrokenPipeError|ConnectionRefusedError)\b"
)
_PICKLE = re.compile(r"pickle|Can't get (?:local )?(?:object|attribute)", re.IGNORECASE)
_CUDA = re.compile(r"re-initialize CUDA|initialization error", re.IGNORECASE)
_DAEMON = re.compile(r"daemonic processes", re.IGNORECASE)
_GUARD = re.compile(r"bootstrapping phase|freeze_support", re.IGNORECASE)


@dataclass(frozen=True)
class _Reason:
    scenario: str
    confidence: float
    what: str  # completes "Training died ..."
    cause: str
    advice: str


def detect(window: RunWindow, limits: Limits) -> list[Finding]:
    """At most one finding: the rank that died first of something we know; the others followed it."""
    dead = [rank for rank in window.ranks.values() if rank.process.state == "crashed"]
    for rank in sorted(dead, key=lambda rank: (rank.made_ns, rank.rank)):
        reason = _reason(rank, window.hosts.get(rank.host))
        if reason is not None:
            return [_finding(window, rank, reason)]
    return []


def _reason(rank: RankWindow, host: HostWindow | None) -> _Reason | None:
    text = rank.process.exit or ""
    multi = [loader for loader in rank.process.loaders if loader.num_workers]
    if _SHM.search(text) and multi:
        return _shared_memory(rank, host, multi)
    if _FDS.search(text):
        return _descriptors(rank)
    killed = _KILLED.search(text)
    if killed:
        return _killed(host, f"worker (pid {killed['pid']})", killed["signal"])
    if not text and oom_kills(host) > 0:
        return _killed(host, "the training process", "Killed")
    if _delivered(rank):
        gone = _GONE.search(text)
        if gone is None and multi and _CUT.match(text) and oom_kills(host):
            return _killed(host, "a worker", "Killed")  # in the middle of handing over a batch
        return (
            _killed(host, f"a worker (pid {gone['pid']})", "Killed" if oom_kills(host) else "")
            if gone
            else None
        )
    if not multi:
        return None
    return _start_up(rank, text, multi[0])


def _delivered(rank: RankWindow) -> bool:
    span = rank.span
    return bool(rank.table("steps")["rank"].size) or (span is not None and span.batches > 0)


def _start_up(rank: RankWindow, text: str, loader: LoaderInfo) -> _Reason | None:
    """S42: it never got as far as the first batch."""
    method = loader.start_method or "the default start method"
    again = method in ("spawn", "forkserver")
    entered = bool(rank.table("epoch_begins")["rank"].size) or (
        rank.span is not None and rank.span.phase in ("iter", "wait", "teardown")
    )
    what = f"before the first batch, while {loader.name} started its workers ({method})"
    if _PICKLE.search(text):
        return _Reason(
            "S42",
            0.9,
            f"{what}: something in the loader cannot be pickled",
            "With spawn and forkserver a worker is a new process, and dataset, collate_fn, sampler and worker_init_fn are pickled"
            " for it. Lambdas, local functions, locks, open files and HDF5 handles cannot be.",
            "Move lambdas and local functions to module level, open files inside the worker (drop them in __getstate__), or use"
            ' multiprocessing_context="fork" if no threads and no CUDA run yet.',
        )
    if _CUDA.search(text):
        return _Reason(
            "S42",
            0.9,
            f"{what}: CUDA was used before the fork",
            "A forked worker inherits CUDA's state but cannot use it (pytorch#40403).",
            'Return CPU tensors from the dataset and move them in the training loop, or use multiprocessing_context="spawn".',
        )
    if _DAEMON.search(text):
        return _Reason(
            "S42",
            0.9,
            f"{what}: this process may not have children",
            "It is itself a daemonic worker of some pool, and those may not start processes.",
            "Use num_workers=0 inside pools, or start this process with daemon=False.",
        )
    if _GUARD.search(text) or (_GONE.search(text) and again):
        return _Reason(
            "S42",
            0.85,
            f"{what}: the workers died while they imported the script",
            f"With {method} each worker imports the script again. Without a guard it trains there too, tries to start workers of its"
            " own and ends.",
            'Put what trains under `if __name__ == "__main__":`, and look at the first traceback in the job\'s log.',
        )
    if not entered:
        return None
    said = f" ({text[:200]})" if text else ""
    return _Reason(
        "S42",
        0.5,
        what,
        f"The process ended before any batch was delivered{said}.",
        "Read the traceback in the job's log; with num_workers=0 the same error shows the line in your own code.",
    )


def _shared_memory(rank: RankWindow, host: HostWindow | None, loaders: Sequence[LoaderInfo]) -> _Reason:
    total = _latest(host, "shm_total_bytes")
    holds = f" It holds {size(total)}." if total > 0 else ""
    ahead = max((loader.num_workers or 0) * (loader.prefetch_factor or 2) for loader in loaders)
    sizes = known(
        np.where(rank.table("fetches")["bytes"] > 0, rank.table("fetches")["bytes"], np.nan).astype(
            np.float64
        )
    )
    need = (
        f" Up to {ahead + 1} batches of {size(float(sizes.max()))} lie there at a time." if sizes.size else ""
    )
    return _Reason(
        "S39",
        0.9,
        "because /dev/shm is full",
        f"Workers hand batches over in shared memory.{holds}{need}",
        "Give the container more (docker run --shm-size=8g or --ipc=host; in Kubernetes an emptyDir with medium: Memory on"
        " /dev/shm), or lower prefetch_factor, num_workers or the batch size.",
    )


def _descriptors(rank: RankWindow) -> _Reason:
    rows = rank.table("processes")
    main = rows["worker"] == -1
    fds, limit = known(rows["fds"][main]), known(rows["fd_limit"][main])
    numbers = f" It last had {fds[-1]:.0f} open" if fds.size else ""
    numbers += f", and may have {limit[-1]:.0f}." if fds.size and limit.size else "." if numbers else ""
    return _Reason(
        "S40",
        0.9,
        "because it ran out of file descriptors",
        f"Every tensor that comes from a worker keeps a descriptor open as long as it lives.{numbers}",
        "Do not keep batches: .clone() or .item() what goes into a list. Raise `ulimit -n`, or use"
        " torch.multiprocessing.set_sharing_strategy('file_system').",
    )


def _killed(host: HostWindow | None, who: str, by: str) -> _Reason:
    kills = oom_kills(host)
    if not by:
        return _Reason(
            "S37",
            0.7,
            f"because {who} ended all at once",
            "Something killed the worker, or it left by itself (os._exit, a crash of native code). The kernel's count of out-of-memory"
            " kills is not known to have risen.",
            "Look for that pid in the kernel log (dmesg), and at the memory of the workers before; run with num_workers=0 to see"
            " an error of native code.",
        )
    if by.strip().lower() != "killed":
        return _Reason(
            "S37",
            0.85,
            f"because {who} crashed ({by.strip()})",
            "Native code in the worker crashed: a decoder, an extension, or two libraries that do not fit.",
            "Run that sample alone with num_workers=0 and faulthandler enabled; update the library on its stack.",
        )
    evidence = (
        f" The kernel counts {kills} out-of-memory kill{'s' if kills != 1 else ''} in this run's control group since we look."
        if kills
        else " The kernel's count of out-of-memory kills is not known to have risen, so somebody else may have done it."
        if host is not None
        else ""
    )
    return _Reason(
        "S37",
        0.95 if kills else 0.75,
        f"because {who} was killed" + (": out of memory" if kills else ""),
        f"SIGKILL to a worker comes from the out-of-memory killer nine times of ten.{evidence}",
        "Lower num_workers or prefetch_factor, give the job more memory, and look at the memory of the workers: metadata in Python"
        " lists is copied by reading it; keep it in NumPy or Arrow.",
    )


def oom_kills(host: HostWindow | None) -> int:
    """Kills in the control group within the window."""
    values = known(host.hosts["oom_kills"]) if host is not None else np.empty(0)
    return int(values[-1] - values[0]) if values.size else 0


def _latest(host: HostWindow | None, column: str) -> float:
    values = known(host.hosts[column]) if host is not None else np.empty(0)
    return float(values[-1]) if values.size else -1.0


def _finding(window: RunWindow, rank: RankWindow, reason: _Reason) -> Finding:
    who = f"Rank {rank.rank}" if len(window.ranks) > 1 else "Training"
    kills = oom_kills(window.hosts.get(rank.host))
    return Finding(
        key=f"{CODE}:rank{rank.rank}",
        code=CODE,
        scenario=reason.scenario,
        severity="critical",
        confidence=reason.confidence,
        began_ns=rank.made_ns,
        title=f"{who} died {reason.what}.",
        cause=reason.cause,
        advice=reason.advice,
        evidence=[
            Evidence(label="last words", value=(rank.process.exit or "none")[:300], unit="text"),
            *([Evidence(label="out-of-memory kills", value=kills, unit="count")] if kills else []),
        ],
        rank=rank.rank,
        host=rank.host,
        pid=rank.process.pid,
        stacks=[],
    )
