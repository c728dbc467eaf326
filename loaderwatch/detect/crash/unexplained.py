"""A training process that died, and no rule knows why. Code ``crashed``.

The finding says what the process was doing, from its last open span and samples. Who stops a job wants no
message: SIGTERM, SIGINT, SIGHUP, SIGQUIT, an exit code and Ctrl-C are how jobs are stopped.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from loaderwatch.core.answers import Evidence, Verdict
from loaderwatch.core.ending import CTRL_C, SIGKILL, signal_name
from loaderwatch.core.facts import ProcessInfo, SpanInfo
from loaderwatch.core.records import UNKNOWN, EndedBy
from loaderwatch.detect.crash.evidence import (
    last_sign_ns,
    left_epoch,
    loader_of,
    output_evidence,
    stopped,
    uncaught,
)
from loaderwatch.detect.finding import Finding, Occurrence, warned_s
from loaderwatch.detect.text import count, duration, listing, size
from loaderwatch.detect.window import HostWindow, RankWindow, RunWindow

CODE: Final = "crashed"
_EXIT_CODE: Final = re.compile(r"exit code ")
_CONFIDENCE: Final = 0.3  # a detector that learns the reason later knows better
_MEMORY_SHORT: Final = 0.05
"""With less than this share of the host's memory left, the out-of-memory killer is the first suspect."""
_EXIT_LENGTH: Final = 160
_SAME_MOMENT_NS: Final = 3_000_000_000
"""Nanoseconds before the last sign of life: a hang that closed within them was not over.

The process died in it.
"""

_DOING: Final = {
    "iter": "while its workers were started (inside iter(loader))",
    "wait": "while waiting for data",
    "step": "in the body of the loop",
    "h2d": "while copying a batch to the GPU",
    "forward": "in the forward pass",
    "backward": "in the backward pass",
    "optimizer": "in the optimizer's step",
    "teardown": "while the epoch's iterator was taken down",
}

_ERROR_IN: Final = {"iter": _DOING["iter"], "wait": _DOING["wait"]}
"""Words for where an error that ended its epoch was raised; one in the loop's body needs none."""

_NO_TRACE: Final = (
    "Look at the last lines of its stderr: a Python error leaves its traceback there. If there is none, it was ended "
    "from outside: `dmesg -T` on its host and the job scheduler's log tell by whom."
)

_WHO_KILLED: Final = (
    "SIGKILL came from outside: `dmesg -T` on its host and the job scheduler's log tell from whom."
)

_NATIVE: Final = (
    "Look at the last lines of its stderr: a fault in native code raised this signal. With PYTHONFAULTHANDLER=1 the next run "
    "prints its stack there."
)

_OTHER_SIGNAL: Final = (
    "A person, a program or the job scheduler sent this signal; the scheduler's log tells which."
)

_CHOSEN: Final = "The script chose this exit code, with sys.exit() or os._exit(): its last lines in the job's log may say why."

_BY_HAND: Final = "Somebody pressed Ctrl-C, or a program sent SIGINT: nothing failed."

_BY_REQUEST: Final = "A person, a program or the job scheduler asked the training to stop: nothing failed."

_FAULTS: Final = tuple(
    getattr(signal, name)
    for name in ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL", "SIGSYS")
    if hasattr(signal, name)
)
"""Signals that the kernel or the C library sends to a process for a fault of its own code."""


class Ended(Protocol):
    """The end of a process: what it said itself, and what the kernel knows."""

    @property
    def state(self) -> str: ...

    @property
    def exit(self) -> str | None: ...

    @property
    def exit_code(self) -> int | None: ...


def unexplained_death(
    window: RunWindow, found: Sequence[Finding], occurrences: Sequence[Occurrence]
) -> Finding | None:
    """Return the finding for a run in which a process died; None if nobody need be told, or people know.

    They know when a detector names the reason, or when the run hung until its end and they were told of that.
    """
    dead = [rank for rank in window.ranks.values() if died(rank.process)]
    if not dead or any(finding.code == CODE for finding in found):
        return None
    first = min(dead, key=lambda rank: (last_sign_ns(rank), rank.rank))  # as the verdict has it
    key = f"{CODE}:rank{first.rank}"
    told = [each.finding for each in occurrences if each.finding.code == CODE]
    if any((finding.key, finding.pid) != (key, first.process.pid) for finding in told):
        return None
    verdict = crash_verdict(window, [each for each in occurrences if each.finding.code != CODE])
    if verdict.finding_id is not None or verdict.severity == "info":
        return None
    return Finding(
        key=key,
        code=CODE,
        scenario="" if first.process.exit else "S37",
        severity="critical",
        confidence=_CONFIDENCE,
        began_ns=first.made_ns,
        title=verdict.title,
        cause=_cause(first.process),
        advice=verdict.advice,
        evidence=[
            Evidence(label="last words", value=(first.process.exit or "none")[:300], unit="text"),
            *output_evidence(first.process),
        ],
        rank=first.rank,
        host=first.host,
        pid=first.process.pid,
    )


def crash_verdict(window: RunWindow, occurrences: Sequence[Occurrence]) -> Verdict:
    """Return the verdict of a run in which a process died.

    It is the detectors' word if they know why, else when and where the process died. A run that hung until it
    died was most likely killed for that, so its verdict is the hang.
    """
    known = next((each for each in occurrences if each.finding.code == CODE), None)
    if known is not None:
        before_s = warned_s(known.finding)
        warned = "" if before_s is None else f" This was warned of {duration(before_s)} before."
        return Verdict(
            severity="critical",
            title=f"{known.finding.title}{warned}",
            advice=known.finding.advice,
            finding_id=known.id,
        )
    ended = sorted(
        (rank for rank in window.ranks.values() if rank.process.state == "crashed"),
        key=lambda rank: (last_sign_ns(rank), rank.rank),
    )
    if not ended:
        return Verdict(severity="critical", title="A training process crashed.", advice=_NO_TRACE)
    # A launcher stops the other ranks once one has ended, with an exit code too. They may have stood still for longer than that one.
    unasked = [rank for rank in ended if not stopped(rank.process)]
    first = next((rank for rank in unasked if died(rank.process)), (unasked or ended)[0])
    hang = next((each for each in occurrences if _lasted_until_death(each, first)), None)
    if hang is not None:
        goes_on = f"{_who(first, window)} ended at {_clock(first)} without going on."
        return Verdict(
            severity="critical",
            title=f"{hang.finding.title} {goes_on}",
            advice=hang.finding.advice,
            finding_id=hang.id,
        )
    request = _request(ended)
    if request is not None:
        return request
    return Verdict(
        severity="critical",
        title=_title(first, window, ended),
        advice=_advice(first, window.hosts.get(first.host)),
    )


def _request(ended: Sequence[RankWindow]) -> Verdict | None:
    """Return the verdict of a run that somebody stopped; None if a process ended in another way.

    Ctrl-C goes to all processes of a terminal, so it speaks for ranks that vanished without a word. SIGTERM does not: launchers
    send it after another rank has died.
    """
    asked = [rank for rank in ended if stopped(rank.process)]
    by_hand = [rank for rank in asked if stopped(rank.process) == CTRL_C]
    silent = [rank for rank in ended if not ending(rank.process)] if by_hand else []
    if not asked or len(asked) + len(silent) < len(ended):
        return None
    first = (by_hand or asked)[0]
    title = f"Stopped by {stopped(first.process)}{_where(first)}."
    return Verdict(severity="info", title=title, advice=_BY_HAND if by_hand else _BY_REQUEST)


def died(process: ProcessInfo) -> bool:
    """Whether the process died of something that it could not handle.

    One that vanished without a word, and of which the kernel tells nothing, counts: it was most likely
    killed.
    """
    if process.state != "crashed" or stopped(process):
        return False
    if process.exit:
        return not _EXIT_CODE.match(process.exit)
    return process.exit_code is None or process.exit_code < 0


def ending(process: Ended) -> str | None:
    """Return how the process ended, in a word or two: what it said itself, else what the kernel knows.

    None when nobody knows.
    """
    if process.exit or not process.exit_code or process.state == "live":
        return process.exit
    return f"exit code {process.exit_code}" if process.exit_code > 0 else signal_name(-process.exit_code)


def _cause(process: ProcessInfo) -> str:
    if process.exit:
        return f"Its last words: {process.exit[:300]}."
    how = ending(process)
    return (
        f"{how} ended it."
        if how
        else "It vanished without a word, as SIGKILL and crashes of native code leave it."
    )


def _lasted_until_death(hang: Occurrence, dead: RankWindow) -> bool:
    """Whether people were told of a hang that this process never got out of.

    The process stood still in that hang if its last phase had begun before people were told, and lasted for most of the time
    until then. The last sign of a process is up to a second older than its death, and a busy server looks at a run seldom: so a
    hang may seem to open after the death, or to close before it. A process that died in the middle of its work, and so made the
    others hang, did not stand still.
    """
    if hang.finding.code != "hung" or hang.finding.severity == "info":
        return False
    died_ns = last_sign_ns(dead)
    if dead.span is not None and dead.span.since_ns < hang.opened_ns:
        hung_ns = hang.opened_ns - hang.finding.began_ns
        if (died_ns - dead.span.since_ns) * 2 >= hung_ns:
            return True
    closed_before = hang.closed_ns is not None and hang.closed_ns < died_ns - _SAME_MOMENT_NS
    return hang.opened_ns <= died_ns and not closed_before


def _who(rank: RankWindow, window: RunWindow) -> str:
    world = max(len(window.ranks), rank.process.world_size)
    who = f"Rank {rank.rank}" if world > 1 else "The training process"
    return f"{who} (pid {rank.process.pid}{f' on {rank.host}' if len(window.hosts) > 1 else ''})"


def _clock(rank: RankWindow) -> str:
    return time.strftime("%H:%M:%S %Z", time.localtime(last_sign_ns(rank) / 1e9))


def _title(rank: RankWindow, window: RunWindow, ended: Sequence[RankWindow]) -> str:
    how = _last_words(rank)
    who, how, span = _who(rank, window), f" ({how})" if how else "", rank.span
    doing = "" if span is None or span.phase == "outside" or span.epoch is None else _doing(span)
    title = (  # a sentence in one piece can be said in another language
        f"{who} crashed{how} at {_clock(rank)} in step {_steps(span)} of epoch {span.epoch}, {doing}."
        if span is not None and doing
        else f"{who} crashed{how} at {_clock(rank)}{_where(rank)}."
    )
    others = sum(not stopped(one.process) for one in ended) - (not stopped(rank.process))
    return f"{title} {count(others, 'other rank')} crashed too." if others else title


def _last_words(rank: RankWindow) -> str:
    """Return one line on how the process ended, as its agent wrote it down, else as the kernel knows."""
    lines = (ending(rank.process) or "").strip().splitlines()
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
    epoch, doing = "" if span.epoch is None else f" of epoch {span.epoch}", _doing(span)
    return f" in step {_steps(span)}{epoch}{f', {doing}' if doing else ''}"


def _doing(span: SpanInfo) -> str:
    """Return what a process was doing in a step; "" where that is not known."""
    if span.phase == "user":
        return f"in the phase {span.phase_name!r}" if span.phase_name else ""
    if span.phase == "wait" and span.awaited_worker is not None and span.awaited_worker >= 0:
        return f"while waiting for data (worker {span.awaited_worker}'s batch)"
    return _DOING.get(span.phase, "")


def _outside(rank: RankWindow, span: SpanInfo) -> str:
    """Return where a process outside all loops died, in words.

    An error inside a loop has ended that loop's epoch before.
    """
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
    """Return the process's training steps; for an agent that sent none, the batches of the current loader."""
    return span.steps or span.step or 0


def _advice(rank: RankWindow, host: HostWindow | None) -> str:
    parts = []
    gone = [worker for worker in rank.workers if not worker.alive]
    living = [worker for worker in rank.workers if worker.alive]
    if gone and living:  # workers that died together with their training process say nothing
        names = listing([f"{worker.worker} (pid {worker.pid})" for worker in gone])
        parts.append(
            f"{'Worker' if len(gone) == 1 else 'Workers'} {names} died before it: look for what ended them."
        )
    error = uncaught(rank.process)
    if error is not None:  # the process itself said why it died; kernel log and memory tell no more
        return " ".join([*parts, f"Read the traceback in the job's log: {_shortened(error)}"])
    code = rank.process.exit_code
    if _EXIT_CODE.match(ending(rank.process) or ""):
        return " ".join([*parts, _CHOSEN])
    if not rank.process.exit and code is not None and code != -SIGKILL:
        return " ".join([*parts, _NATIVE if -code in _FAULTS else _OTHER_SIGNAL])
    look = _NO_TRACE if code is None else _WHO_KILLED
    short, memory = _memory(rank, host)
    parts += [memory, look] if short else [look, memory]
    return " ".join(part for part in parts if part)


def _memory(rank: RankWindow, host: HostWindow | None) -> tuple[bool, str]:
    """Return whether memory was short, and a sentence on it; "" when nothing is known.

    Only SIGKILL can come from the kernel's out-of-memory killer.
    """
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
