"""What was going on when a training process died, from its last open span and samples."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from loaderwatch.core.records import UNKNOWN, EndedBy
from loaderwatch.core.wire import SpanInfo
from loaderwatch.detect.crash.evidence import interrupted, last_sign_ns, left_epoch, loader_of, uncaught
from loaderwatch.detect.incidents.folding import warned_s
from loaderwatch.detect.text import count, duration, listing, size
from loaderwatch.detect.window import HostWindow, RankWindow, RunWindow
from loaderwatch.server.alerts.book import Alert

_MEMORY_SHORT: Final = 0.05
"""Share of the host's memory left at which the kernel's out-of-memory killer is the first thing to look for."""
_EXIT_LENGTH: Final = 160
_SAME_MOMENT_NS: Final = 3_000_000_000
"""A hang that was closed this shortly before the last sign of life was not overcome."""

_DOING: Final = {
    "iter": "while its workers were started (inside iter(loader))",
    "wait": "while waiting for data",
    "step": "between two batches, in the body of the loop",
    "h2d": "while copying a batch to the GPU",
    "forward": "in the forward pass",
    "backward": "in the backward pass",
    "optimizer": "in the optimizer's step",
    "teardown": "while the epoch's iterator was taken down",
}

_ERROR_IN: Final = {"iter": _DOING["iter"], "wait": _DOING["wait"]}
"""Where an error came up that left its epoch; in the loop's body nothing needs to be added."""

_NO_TRACE: Final = (
    "Look at the last lines of its stderr: a Python error leaves its traceback there. If there is none, it was killed "
    "from outside: `dmesg -T | grep -i kill` on its host tells of the out-of-memory killer, the job scheduler's log of "
    "its limits."
)

_BY_HAND: Final = "Somebody pressed Ctrl-C, or a program sent SIGINT: nothing failed."


def crash_verdict(window: RunWindow, alerts: Iterable[Alert]) -> dict[str, Any]:
    """For a run in which a process died: the detectors' word if they know why, else when and where it died.

    A run that hung until it died was most likely killed for that: then the hang is what to know.
    """
    alerts = list(alerts)
    known = next((alert for alert in alerts if alert.finding.code == "crashed"), None)
    if known is not None:
        before_s = warned_s(known.finding)
        warned = "" if before_s is None else f" This was warned of {duration(before_s)} before."
        return _verdict(f"{known.finding.title}{warned}", known.finding.advice, known.id)
    dead = sorted(
        (rank for rank in window.ranks.values() if rank.process.state == "crashed"),
        key=lambda rank: (last_sign_ns(rank), rank.rank),
    )
    if not dead:
        return _verdict("A training process crashed.", _NO_TRACE, None)
    first = dead[0]
    hang = next((alert for alert in alerts if _lasted_until(alert, last_sign_ns(first))), None)
    if hang is not None:
        ended = f"{_who(first, window)} ended at {_clock(first)} without going on."
        return _verdict(f"{hang.finding.title} {ended}", hang.finding.advice, hang.id)
    stopped = next((rank for rank in dead if interrupted(rank.process)), None)
    if stopped is not None and all(interrupted(rank.process) or not rank.process.exit for rank in dead):
        title = f"Stopped by Ctrl-C (KeyboardInterrupt){_where(stopped)}."
        return _verdict(title, _BY_HAND, None, severity="info")
    return _verdict(_title(first, window, dead), _advice(first, window.hosts.get(first.host)), None)


def _verdict(title: str, advice: str, finding_id: str | None, severity: str = "critical") -> dict[str, Any]:
    return {"severity": severity, "title": title, "advice": advice, "finding_id": finding_id}


def _lasted_until(alert: Alert, died_ns: int) -> bool:
    if alert.finding.code != "hung" or not alert.pages or alert.opened_ns > died_ns:
        return False
    return alert.closed_ns is None or alert.closed_ns >= died_ns - _SAME_MOMENT_NS


def _who(rank: RankWindow, window: RunWindow) -> str:
    world = max(len(window.ranks), rank.process.world_size)
    who = f"Rank {rank.rank}" if world > 1 else "The training process"
    return f"{who} (pid {rank.process.pid}{f' on {rank.host}' if len(window.hosts) > 1 else ''})"


def _clock(rank: RankWindow) -> str:
    return time.strftime("%H:%M:%S %Z", time.localtime(last_sign_ns(rank) / 1e9))


def _title(rank: RankWindow, window: RunWindow, dead: Sequence[RankWindow]) -> str:
    how = _last_words(rank)
    crashed = f"{_who(rank, window)} crashed{f' ({how})' if how else ''}"
    title = f"{crashed} at {_clock(rank)}{_where(rank)}."
    others = len(dead) - 1
    return f"{title} {count(others, 'other rank')} crashed too." if others else title


def _last_words(rank: RankWindow) -> str:
    """One line of how it ended, as its agent wrote it down."""
    lines = (rank.process.exit or "").strip().splitlines()
    return _shortened(lines[-1].strip()) if lines else ""


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXIT_LENGTH else line[: _EXIT_LENGTH - 1] + "…"


def _where(rank: RankWindow) -> str:
    span = rank.span
    if span is None:
        return ""
    if span.phase == "outside":
        return _outside(rank, span)
    place = f" in step {_steps(span)}"
    if span.epoch is not None:
        place += f" of epoch {span.epoch}"
    if span.phase == "user":
        return f"{place}, in the phase {span.phase_name!r}" if span.phase_name else place
    doing = _DOING.get(span.phase, "")
    if span.phase == "wait" and span.awaited_worker is not None and span.awaited_worker >= 0:
        doing += f" (worker {span.awaited_worker}'s batch)"
    return f"{place}, {doing}" if doing else place


def _outside(rank: RankWindow, span: SpanInfo) -> str:
    """Outside all loops: an error that came up in one has closed it on its way out."""
    step = f" in step {_steps(span)}"
    left = left_epoch(rank)
    if left is not None:
        if left.loader is not None and left.loader.role == "eval":
            return f"{step}, in the pass over {left.loader.name}"
        doing = _ERROR_IN.get(left.phase)
        return f"{step}, in epoch {left.epoch}{f', {doing}' if doing else ''}"
    ends = rank.table("epoch_ends")
    of_training = [
        row
        for row, number in enumerate(ends["loader"].tolist())
        if (loader := loader_of(rank, number)) is None or loader.role == "train"
    ]
    if not of_training:
        return " before its first epoch" if not span.steps else f"{step}, outside its training loops"
    last = of_training[-1]
    over = "after" if ends["ended_by"][last] == EndedBy.EXHAUSTED else "after it had left"
    return f" after step {_steps(span)}, {over} epoch {int(ends['epoch'][last])}"


def _steps(span: SpanInfo) -> int:
    """Training steps of the process; only of an agent that said none, batches of the loader at hand."""
    return span.steps or span.step or 0


def _advice(rank: RankWindow, host: HostWindow | None) -> str:
    parts = []
    gone = [worker for worker in rank.workers if not worker.alive]
    living = [worker for worker in rank.workers if worker.alive]
    if gone and living:  # one that died with its training process says nothing
        names = listing([f"{worker.worker} (pid {worker.pid})" for worker in gone])
        parts.append(
            f"{'Worker' if len(gone) == 1 else 'Workers'} {names} died before it: look for what ended them."
        )
    error = uncaught(rank.process)
    if error is not None:  # it said itself what it died of: no kernel log and no memory figure tells more
        return " ".join([*parts, f"Read the traceback in the job's log: {_shortened(error)}"])
    short, memory = _memory(rank, host)
    parts += [memory, _NO_TRACE] if short else [_NO_TRACE, memory]
    return " ".join(part for part in parts if part)


def _memory(rank: RankWindow, host: HostWindow | None) -> tuple[bool, str]:
    """Whether memory was short, and what is known of it; "" when nothing is."""
    held = _last(rank.table("processes"), "rss_bytes", rank.process.pid)
    if host is None:
        return False, ""
    free, total = _last(host.hosts, "memory_available_bytes"), _last(host.hosts, "memory_total_bytes")
    if free is None or not total:
        return False, ""
    left = f"{size(free)} of the host's {size(total)} were free"
    mine = f", it held {size(held)} itself" if held is not None else ""
    if free < _MEMORY_SHORT * total:
        return True, (
            f"Memory was short: {left}{mine}. The kernel's out-of-memory killer is likely; fewer workers, a smaller "
            "prefetch_factor or a dataset that does not copy itself into each worker need less."
        )
    return (
        False,
        f"Memory was not short on the host: {left}{mine}; a limit of the container or job may be lower.",
    )


def _last(columns: Mapping[str, Any], name: str, pid: int | None = None) -> float | None:
    values = columns[name]
    if pid is not None:
        values = values[columns["pid"] == pid]
    values = values[~np.isnan(values)] if values.dtype.kind == "f" else values[values != UNKNOWN]
    return float(values[-1]) if len(values) else None
