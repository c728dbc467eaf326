"""S37, a worker that a signal ended: which one, at which sample, and whether memory was the reason."""

from __future__ import annotations

from typing import Final

import numpy as np

from loaderwatch.detect.crash.evidence import loader_of, sample_at_death, worker_of
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.measures.statistics import known
from loaderwatch.detect.text import count, sample_name, size
from loaderwatch.detect.window import HostWindow, RankWindow

_SENT: Final = ("terminated", "hangup", "interrupt", "quit", "user defined signal 1", "user defined signal 2")
"""Signals that a person or a program sends; the others come from crashes of native code."""
_RECENT_NS: Final = 15_000_000_000
_PLENTY_RATIO: Final = 0.2
"""Share of the host's memory, and of the control group's limit, that is plenty when it is free.

With as much free, a kill was hardly the kernel's.
"""
_WHO_SENT_IT: Final = (
    "Find out who sent it: a person (kill), a watchdog, the job scheduler or the container's runtime; their logs name the pid."
    " Nothing needs to be changed in the loader."
)


def killed_worker(
    rank: RankWindow, host: HostWindow | None, pid: int | None, by: str, who: str = "a worker"
) -> Explanation:
    """Explain S37: why a worker or the training process died.

    ``by`` is the signal's name as PyTorch gives it, "" when it is not known. ``who`` names the process in
    words when ``pid`` is None.
    """
    signal = by.strip().rstrip(".")
    worker = worker_of(rank, pid) if pid is not None else None
    if pid is not None:
        who = f"worker {worker.worker} (pid {pid})" if worker else f"a worker (pid {pid})"
    sample = ""
    index = sample_at_death(worker)
    if worker is not None and index is not None:
        loader = loader_of(rank, worker.loader)
        sample = sample_name(index, loader.iterable_dataset if loader else None)
    was_reading = f" It was reading {sample}." if sample else ""
    if not signal:
        confidence, what, cause, advice = _vanished(host, who, was_reading)
    elif signal.lower() in _SENT:
        confidence, what = 0.85, f"because {who} was ended from outside ({signal})"
        cause = f"Programs and people send this signal: nothing dies of it by itself.{was_reading}"
        advice = _WHO_SENT_IT
    elif signal.lower() != "killed":
        confidence, what = 0.85, f"because {who} crashed ({signal})" + (f" in {sample}" if sample else "")
        cause = f"Native code in the worker crashed: a decoder, an extension, or two libraries that do not fit.{was_reading}"
        advice = (
            f"Read {sample or 'the samples it had'} alone with num_workers=0 and faulthandler enabled; update the library on"
            " its stack."
        )
    else:
        confidence, what, cause, advice = _killed(host, who, was_reading)
    return Explanation(
        "S37",
        confidence,
        what,
        cause,
        advice,
        worker=worker.worker if worker is not None else None,
        pid=pid,
        sample_indices=[index] if index is not None else [],
    )


def _vanished(host: HostWindow | None, who: str, was_reading: str) -> tuple[float, str, str, str]:
    plenty, memory = _memory(host)
    looks = "in the job scheduler's log" if plenty else "at the memory of the workers before"
    return (
        0.7,
        f"because {who} ended all at once",
        f"Something killed the worker, or it left by itself (os._exit, a crash of native code).{was_reading} The kernel's count"
        f" of out-of-memory kills is not known to have risen.{memory}",
        f"Look for that pid in the kernel log (dmesg), and {looks}; run with num_workers=0 to see an error of native code.",
    )


def _killed(host: HostWindow | None, who: str, was_reading: str) -> tuple[float, str, str, str]:
    """Explain a death by SIGKILL: return confidence, completion of the title, cause and advice."""
    kills, (plenty, memory) = oom_kills(host), _memory(host)
    if plenty and not kills:
        return (
            0.75,
            f"because {who} was killed",
            f"Somebody or something else than the kernel's out-of-memory killer sent SIGKILL: memory was not short.{memory}"
            f"{was_reading}",
            _WHO_SENT_IT,
        )
    evidence = (
        f" The kernel counts {count(kills, 'out-of-memory kill')} in this run's control group since we look."
        if kills
        else " The kernel's count of out-of-memory kills is not known to have risen, so somebody else may have done it."
        if host is not None
        else ""
    )
    return (
        0.95 if kills else 0.75,
        f"because {who} was killed" + (": out of memory" if kills else ""),
        f"SIGKILL to a worker comes from the out-of-memory killer nine times of ten.{evidence}{memory}{was_reading}",
        "Lower num_workers or prefetch_factor, give the job more memory, and look at the memory of the workers: metadata in Python"
        " lists is copied by reading it; keep it in NumPy or Arrow.",
    )


def _memory(host: HostWindow | None) -> tuple[bool, str]:
    """Return whether there was plenty of memory in the last seconds, and a sentence with the figures.

    The sentence is "" when there are no figures.
    """
    if host is None:
        return False, ""
    rows = host.hosts
    recent = rows["t_ns"] >= host.made_ns - _RECENT_NS
    free, total = (known(rows[name][recent]) for name in ("memory_available_bytes", "memory_total_bytes"))
    if not free.size or not total.size or total[-1] <= 0:
        return False, ""
    least, all_of_it = float(free.min()), float(total[-1])
    text = (
        f" In the lowest reading of the last seconds, {size(least)} of the host's {size(all_of_it)} were free"
    )
    hits, limit, used = (
        known(rows[name]) for name in ("memory_limit_hits", "memory_limit_bytes", "memory_used_bytes")
    )
    hit = max(0, int(hits[-1] - hits[0])) if hits.size else 0
    group = "the control group"
    if limit.size and used.size:
        group = "it"
        text += f"; the control group used {size(float(used.max()))} of the {size(float(limit[-1]))} it may"
    if hits.size:
        reached = f"reached its limit {count(hit, 'time')}" if hit else "never reached its limit"
        text += f"; {group} {reached}"
    near = limit.size > 0 and used.size > 0 and float(used.max()) > (1 - _PLENTY_RATIO) * float(limit[-1])
    return least > _PLENTY_RATIO * all_of_it and not hit and not near, f"{text}."


def oom_kills(host: HostWindow | None) -> int:
    """Return how many processes the out-of-memory killer ended in the control group within the window."""
    values = known(host.hosts["oom_kills"]) if host is not None else np.empty(0)
    return int(values[-1] - values[0]) if values.size else 0
