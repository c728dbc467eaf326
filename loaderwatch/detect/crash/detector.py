"""A training process that died because of its loader. Code ``crashed``.

S37 is a killed worker, S39 shared memory, S40 file descriptors, S42 a failed start-up. The last words name
the cause, but people and tools misread them: "Killed" nearly always means memory, "Bus error" /dev/shm
(pytorch#5040), and "received 0 items of ancdata" file descriptors (pytorch#973).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

import numpy as np

from loaderwatch.core.answers import Param, Text
from loaderwatch.core.ending import SIGKILL
from loaderwatch.core.facts import Call, FailedSample, LoaderInfo
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import CRASHED as CODE
from loaderwatch.detect.crash.death_traces import (
    could_not_start,
    output_evidence,
    sample_at_death,
    stopped,
    uncaught,
    worker_of,
    workers_began,
)
from loaderwatch.detect.crash.killed import killed_worker, oom_kills
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Explanation, Finding, observed
from loaderwatch.detect.measures.statistics import known
from loaderwatch.detect.running_out.descriptors import NEARLY_RATIO, open_by
from loaderwatch.detect.window import HostWindow, RankWindow, RunWindow

MOST_FAILED_SAMPLES_NAMED: Final = threshold(8, "samples", "chosen: more names make a title unreadable")


def failed_fetch(rank: RankWindow) -> Explanation | None:
    """Explain a death by an error from reading or collating samples; None if no fetch raised the error."""
    failed = rank.process.failed
    if failed is None:
        return None
    at = failed.at
    params: dict[str, Param] = {
        "worker": failed.worker if failed.worker >= 0 else None,
        "loader": None,
        "file": PurePath(at.file).name if at is not None else None,
        "line": at.line if at is not None else None,
        "function": at.function if at is not None else None,
        "error": failed.error.rstrip(".") if failed.error else None,
        "advice": _advice(failed),
    }
    indices = [] if failed.counted else [index for index in failed.indices if isinstance(index, int)]
    loader = rank.loader(failed.loader)
    if loader is not None:
        params["loader"] = loader.name
    rule, named = _named(failed)
    return Explanation(
        "",
        0.95,
        rule=rule,
        params={**params, **named},
        worker=failed.worker if failed.worker >= 0 else None,
        sample_indices=indices[:MOST_FAILED_SAMPLES_NAMED],
        evidence=[] if at is None else [observed("failed-in", _line(at), "text")],
    )


def _line(at: Call) -> Text:
    return Text("code-line", {"file": at.file, "line": at.line, "function": at.function})


def _named(failed: FailedSample) -> tuple[str, dict[str, Param]]:
    """Return the rule, and the samples that raised the error as far as they are known."""
    if failed.samples == 1:
        index = failed.indices[0] if failed.indices else None
        return "sample-raised-error", {"sample": index, "key": repr(index), "counted": failed.counted}
    first = failed.indices[:MOST_FAILED_SAMPLES_NAMED]
    return (
        "collating-raised-error" if failed.collating else "batch-raised-error",
        {
            "samples": ", ".join(map(str, first)) if first else None,
            "more": max(0, failed.samples - len(first)),
        },
    )


def _advice(failed: FailedSample) -> str:
    """Return the advice: "collate" alone, read a stream "up-to" the sample, or read the sample "alone"."""
    if failed.collating:
        return "collate"
    return "up-to" if failed.counted or not failed.indices else "alone"


# The C library's name for the signals that the timer sends to a worker. Nobody else uses them on workers.
TIMER_SIGNAL: Final = "Real-time signal"
_ERROR: Final = re.compile(r"uncaught SampleTimeout\b")
_WORDS: Final = re.compile(
    r".*SampleTimeout: (?P<what>.+? than .+?)\. (?P<rest>.*?)(?: Look at| Give that|$)", re.DOTALL
)


def late_sample_error(rank: RankWindow, text: str) -> Explanation | None:
    """Explain a death by SampleTimeout from the last words; None if the error was another one."""
    if not _ERROR.match(text):
        return None
    words = _WORDS.match(text)
    rows = rank.table("sample_timeouts")
    indices = [int(index) for index in rows["index"][-1:] if index >= 0]
    return Explanation(
        "",
        0.95,
        rule="sample-took-too-long",
        params={
            "error_says": words["what"] if words else None,
            "error_adds": words["rest"] if words else None,
        },
        worker=int(rows["worker"][-1]) if rows["worker"].size and rows["worker"][-1] >= 0 else None,
        sample_indices=indices,
    )


def late_sample_signal(rank: RankWindow, pid: int) -> Explanation:
    """Explain a worker killed by the timer's signal while the training loop was elsewhere."""
    worker = worker_of(rank, pid)
    index = sample_at_death(worker)
    return Explanation(
        "",
        0.9,
        rule="worker-ended-at-slow-sample",
        params={
            "process": "worker",
            "worker": worker.worker if worker is not None else None,
            "pid": pid,
            "sample": index,
        },
        worker=worker.worker if worker is not None else None,
        pid=pid,
        sample_indices=[] if index is None else [index],
    )


_FULL: Final = re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE)
# torch.save's errors for a file that it could not write to the end, for any reason. torch.load has others.
_CUT_FILE: Final = re.compile(r"unexpected pos \d+ vs \d+|PytorchStreamWriter failed writing")
_OF_A_LOADER: Final = re.compile(
    r"Caught \w+ in DataLoader worker|shared memory|/dev/shm|torch_\d", re.IGNORECASE
)
FULL_SHM_RATIO: Final = threshold(0.9, "ratio", "chosen: a fuller /dev/shm may be what ran out of space")


def full_disk_error(rank: RankWindow, host: HostWindow | None, text: str) -> Explanation | None:
    """Explain a death because the training process could not write; None if not, or if /dev/shm was full."""
    cut = _CUT_FILE.search(text) is not None
    if not cut and (not _FULL.search(text) or _OF_A_LOADER.search(text) or _may_be_shm(rank, host)):
        return None
    path = host.info.filling_disk if host is not None else None
    left_bytes = host.newest("filling_disk_free_bytes") if host is not None else math.nan
    return Explanation(
        "S56",
        0.9 if path or not cut else 0.7,
        rule="disk-full",
        params={
            "path": path or None,
            "sure": bool(path) or not cut,
            "cut": cut,
            "left_bytes": left_bytes if math.isfinite(left_bytes) else None,
        },
    )


def _may_be_shm(rank: RankWindow, host: HostWindow | None) -> bool:
    """Whether /dev/shm may have been full: it was nearly full, or workers were just starting."""
    if not any(loader.num_workers for loader in rank.process.loaders):
        return False
    if not rank.table("steps")["rank"].size:
        return True
    total, used = (
        host.newest(f"shm_{name}_bytes") if host is not None else math.nan for name in ("total", "used")
    )
    return not used < FULL_SHM_RATIO * total


_SHM = re.compile(
    r"insufficient shared memory|Bus error|"
    r"unable to (?:write|resize|open|mmap|allocate) .*(?:shm|shared memory|torch_|bytes)"
    r"|No space left on device",
    re.IGNORECASE,
)
_FDS = re.compile(
    r"Too many open files|ancdata|communication with the workers is no longer possible", re.IGNORECASE
)
_KILLED = re.compile(
    r"worker \(pid(?:\(s\))? (?P<pid>\d+)\) is killed by signal: (?P<signal>[A-Za-z0-9 -]+)",
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
_CAUGHT = re.compile(r"Caught \w+ in DataLoader worker process \d+")
_AGAIN = ("spawn", "forkserver")  # start methods with which each worker imports the script again


def detect(run: RunEvidence) -> list[Finding]:
    """Explain the first death with a known cause. At most one finding: the other ranks followed it."""
    window = run.window
    dead = [rank for rank in window.ranks.values() if rank.process.state == "crashed"]
    for rank in sorted(dead, key=lambda rank: (rank.made_ns, rank.rank)):
        reason = _reason(rank, window.hosts.get(rank.host))
        if reason is not None:
            return [_finding(window, rank, reason)]
    return []


def _reason(rank: RankWindow, host: HostWindow | None) -> Explanation | None:
    """Return why a process died. A resource that ran out is a better reason than the sample being read."""
    if stopped(rank.process):
        return None  # Ctrl-C ends the workers too, and SIGTERM is not sent by the out-of-memory killer
    return _known_reason(rank, host) or failed_fetch(rank)


def _known_reason(rank: RankWindow, host: HostWindow | None) -> Explanation | None:
    text = rank.process.exit or ""
    late_reason = late_sample_error(rank, text)
    if late_reason is not None:
        return late_reason
    multi = [loader for loader in rank.process.loaders if loader.num_workers]
    no_room = full_disk_error(rank, host, text)
    if no_room is not None:
        return no_room
    if _SHM.search(text) and multi:
        return _shared_memory(rank, host, multi)
    if _FDS.search(text):
        return _descriptors(rank)
    full = _full_worker(rank) if _CUT.match(text) else None
    if full is not None:
        return full
    by_signal = _KILLED.search(text)
    if by_signal and by_signal["signal"].startswith(TIMER_SIGNAL):
        return late_sample_signal(rank, int(by_signal["pid"]))
    if by_signal:
        return killed_worker(rank, host, int(by_signal["pid"]), by_signal["signal"])
    kills = oom_kills(host)
    if not text and kills > 0 and rank.process.exit_code in (None, -SIGKILL):
        return killed_worker(rank, host, None, "Killed", "training")
    spawned = any(loader.start_method in _AGAIN for loader in multi)
    if _delivered(rank) or workers_began(rank) or not spawned:
        gone = _GONE.search(text)
        if gone is not None:
            return killed_worker(rank, host, int(gone["pid"].split(",")[0]), "Killed" if kills else "")
        if multi and _CUT.match(text) and kills:  # the worker was killed while it handed over a batch
            return killed_worker(rank, host, None, "Killed")
    if _delivered(rank) or not multi:
        return None
    return _start_up(rank, text, multi[0])


def _delivered(rank: RankWindow) -> bool:
    span = rank.span
    return bool(rank.table("steps")["rank"].size) or (span is not None and span.batches > 0)


def _start_up(rank: RankWindow, text: str, loader: LoaderInfo) -> Explanation | None:
    """Explain S42: the workers could not be started; None if something else happened.

    An error that a running worker raised belongs to the dataset, except for CUDA's errors.
    """
    again = loader.start_method in _AGAIN
    starting = could_not_start(rank) and not _CAUGHT.search(text)
    params: dict[str, Param] = {"loader": loader.name, "method": loader.start_method or None}
    if starting and _PICKLE.search(text):
        return Explanation("S42", 0.9, rule="loader-cannot-be-pickled", params=params)
    if _CUDA.search(text) and (starting or _CAUGHT.search(text)):
        return Explanation("S42", 0.9, rule="cuda-used-before-fork", params=params)
    if starting and _DAEMON.search(text):
        return Explanation("S42", 0.9, rule="daemonic-process", params=params)
    if (starting and _GUARD.search(text)) or (_GONE.search(text) and again):
        return Explanation("S42", 0.85, rule="no-main-guard", params=params)
    error = uncaught(rank.process)
    if not starting or error is None:
        return None
    params["error"] = error[:200]
    return Explanation("S42", 0.5, rule="error-while-starting-workers", params=params)


def _shared_memory(rank: RankWindow, host: HostWindow | None, loaders: Sequence[LoaderInfo]) -> Explanation:
    total = host.newest("shm_total_bytes") if host is not None else math.nan
    ahead = max((loader.num_workers or 0) * (loader.prefetch_factor or 2) for loader in loaders)
    sizes = known(
        np.where(rank.table("fetches")["bytes"] > 0, rank.table("fetches")["bytes"], np.nan).astype(
            np.float64
        )
    )
    return Explanation(
        "S39",
        0.9,
        rule="shared-memory-full",
        params={
            "shm_bytes": total if total > 0 else None,
            "ahead": ahead + 1,
            "batch_bytes": float(sizes.max()) if sizes.size else None,
        },
    )


def _descriptors(rank: RankWindow) -> Explanation:
    rows = rank.table("processes")
    main = rows["worker"] == -1
    fds, limit = known(rows["fds"][main]), known(rows["fd_limit"][main])
    return Explanation(
        "S40",
        0.9,
        rule="descriptors-exhausted",
        params={
            "open": float(fds[-1]) if fds.size else None,
            "limit": float(limit[-1]) if limit.size else None,
        },
    )


def _full_worker(rank: RankWindow) -> Explanation | None:
    """Explain S40 of a worker whose last batch arrived incomplete; None if no worker was near its limit."""
    rows = rank.table("processes")
    for worker in np.unique(rows["worker"][rows["worker"] >= 0]).tolist():
        own = rows["worker"] == worker
        fds, limit = known(rows["fds"][own]), known(rows["fd_limit"][own])
        at_death = open_by(rows["t_ns"][own], rows["fds"][own], rank.made_ns)
        if fds.size and limit.size and at_death >= NEARLY_RATIO * limit[-1]:
            return Explanation(
                "S40",
                0.8,
                rule="worker-descriptors-exhausted",
                params={"worker": worker, "open": float(fds[-1]), "limit": float(limit[-1])},
                worker=worker,
            )
    return None


def _finding(window: RunWindow, rank: RankWindow, reason: Explanation) -> Finding:
    kills = oom_kills(window.hosts.get(rank.host))
    return Finding(
        key=f"{CODE}:rank{rank.rank}",
        code=CODE,
        scenario=reason.scenario,
        severity="critical",
        confidence=reason.confidence,
        began_ns=rank.made_ns,
        rule=reason.rule,
        params=reason.params,
        frame=Text(
            "training-died",
            {"rank": rank.rank if len(window.ranks) > 1 else None, "because": reason.said("because")},
        ),
        also=reason.also,
        evidence=[
            observed("last-words", (rank.process.exit or "none")[:300], "text"),
            *([observed("out-of-memory-kills", kills, "count")] if kills else []),
            *(observed("sample-it-was-reading", index, "index") for index in reason.sample_indices),
            *reason.evidence,
            *output_evidence(rank.process),
        ],
        rank=rank.rank,
        host=rank.host,
        worker=reason.worker,
        pid=reason.pid or rank.process.pid,
        sample_indices=reason.sample_indices,
        stacks=[],
    )
