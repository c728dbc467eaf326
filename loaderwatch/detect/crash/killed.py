"""S37, a worker killed by a signal: which worker, at which sample, and whether memory was the reason."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from loaderwatch.core.answers import Param
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.crash.death_traces import loader_of, sample_at_death, worker_of
from loaderwatch.detect.finding import Explanation
from loaderwatch.detect.measures.statistics import known
from loaderwatch.detect.window import HostWindow, RankWindow

# Signals that a person or a program sends. The other signals come from crashes of native code.
_SENT: Final = ("terminated", "hangup", "interrupt", "quit", "user defined signal 1", "user defined signal 2")
_RECENT_NS: Final = threshold(
    15_000_000_000, "ns", "chosen: so shortly before a death, readings show whether memory was short"
)
_PLENTY_RATIO: Final = threshold(
    0.2, "ratio", "chosen: with so much of memory and of the cgroup's limit free, the kernel hardly kills"
)


def killed_worker(
    rank: RankWindow,
    host: HostWindow | None,
    pid: int | None,
    by: str,
    process: Literal["worker", "training"] = "worker",
) -> Explanation:
    """Explain S37: why a worker or the training process died.

    Args:
        by: the signal's name as PyTorch gives it, "" when it is not known.
        process: which process died, for a ``pid`` that is None.
    """
    signal = by.strip().rstrip(".")
    worker = worker_of(rank, pid) if pid is not None else None
    index = sample_at_death(worker)
    loader = loader_of(rank, worker.loader) if worker is not None else None
    params: dict[str, Param] = {
        "process": process if pid is None else "worker",
        "worker": worker.worker if worker is not None else None,
        "pid": pid,
        "sample": index,
        "stream": bool(loader is not None and loader.iterable_dataset),
    }
    if not signal:
        confidence, rule, more = _vanished(host)
    elif signal.lower() in _SENT:
        confidence, rule, more = 0.85, "ended-by-signal", {"signal": signal}
    elif signal.lower() != "killed":
        confidence, rule, more = 0.85, "native-code-crashed", {"signal": signal}
    else:
        confidence, rule, more = _killed(host)
    return Explanation(
        "S37",
        confidence,
        rule=rule,
        params={**params, **more},
        worker=worker.worker if worker is not None else None,
        pid=pid,
        sample_indices=[index] if index is not None else [],
    )


def _vanished(host: HostWindow | None) -> tuple[float, str, dict[str, Param]]:
    plenty, memory = _memory(host)
    return 0.7, "worker-vanished", {**memory, "plenty": plenty}


def _killed(host: HostWindow | None) -> tuple[float, str, dict[str, Param]]:
    """Return confidence, rule and parameters for a death by SIGKILL."""
    kills, (plenty, memory) = oom_kills(host), _memory(host)
    if plenty and not kills:
        return 0.75, "killed-from-outside", memory
    if kills:
        return 0.95, "killed-out-of-memory", {**memory, "kills": kills}
    return 0.75, "killed-perhaps-out-of-memory", {**memory, "host_known": host is not None}


def _memory(host: HostWindow | None) -> tuple[bool, dict[str, Param]]:
    """Return whether plenty of memory was free in the last seconds, and the figures, which may be unknown."""
    figures: dict[str, Param] = dict.fromkeys(
        ("free_bytes", "host_bytes", "used_bytes", "limit_bytes", "limit_hits")
    )
    if host is None:
        return False, figures
    rows = host.hosts
    recent = rows["t_ns"] >= host.made_ns - _RECENT_NS
    free, total = (known(rows[name][recent]) for name in ("memory_available_bytes", "memory_total_bytes"))
    if not free.size or not total.size or total[-1] <= 0:
        return False, figures
    least_bytes, host_bytes = float(free.min()), float(total[-1])
    figures.update(free_bytes=least_bytes, host_bytes=host_bytes)
    hits, limit, used = (
        known(rows[name]) for name in ("memory_limit_hits", "memory_limit_bytes", "memory_used_bytes")
    )
    new_hits = max(0, int(hits[-1] - hits[0])) if hits.size else 0
    if limit.size and used.size:
        figures.update(used_bytes=float(used.max()), limit_bytes=float(limit[-1]))
    if hits.size:
        figures["limit_hits"] = new_hits
    near = limit.size > 0 and used.size > 0 and float(used.max()) > (1 - _PLENTY_RATIO) * float(limit[-1])
    return least_bytes > _PLENTY_RATIO * host_bytes and not new_hits and not near, figures


def oom_kills(host: HostWindow | None) -> int:
    """Return how many processes the out-of-memory killer ended in the control group within the window."""
    values = known(host.hosts["oom_kills"]) if host is not None else np.empty(0)
    return int(values[-1] - values[0]) if values.size else 0
