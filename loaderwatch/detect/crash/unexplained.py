"""A training process died and no rule knows why. Code ``crashed``.

The finding says what the process was doing, from its last open span and samples. Jobs that somebody stops are
not reported: SIGTERM, SIGINT, SIGHUP, SIGQUIT, an exit code and Ctrl-C are the usual ways.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from loaderwatch.core.answers import Param, Text, Verdict
from loaderwatch.core.ending import CTRL_C, SIGKILL, signal_name
from loaderwatch.core.facts import ProcessInfo, SpanInfo
from loaderwatch.core.records import UNKNOWN, EndedBy
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import CRASHED as CODE
from loaderwatch.detect.crash import detector
from loaderwatch.detect.crash.death_traces import (
    MOMENT_NS,
    last_sign_ns,
    left_epoch,
    loader_of,
    output_evidence,
    stopped,
    uncaught,
)
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, Occurrence, observed, text_of, verdict, warned_s
from loaderwatch.detect.window import HostWindow, RankWindow, RunWindow

_EXIT_CODE: Final = re.compile(r"exit code ")
_CONFIDENCE: Final = threshold(0.3, "ratio", "chosen low: a detector that finds the reason overrules it")
_MEMORY_SHORT: Final = threshold(
    0.05, "ratio", "chosen: with less of the host's memory free, suspect the out-of-memory killer first"
)
_EXIT_LENGTH: Final = threshold(160, "characters", "chosen: last words are cut so that titles stay readable")

_EXIT_ALONE: Final = re.compile(r"exit code (?P<code>-?\d+)")
# Phases of a step that the message can name.
_DOING: Final = ("iter", "wait", "step", "h2d", "forward", "backward", "optimizer", "teardown")
# Phases that the message names if an error ended the epoch there; the loop's body needs no words.
_ERROR_IN: Final = ("iter", "wait")

# Signals that the kernel or the C library sends to a process for a fault in its own code.
_FAULTS: Final = tuple(
    getattr(signal, name)
    for name in ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL", "SIGSYS")
    if hasattr(signal, name)
)


class Ended(Protocol):
    """How a process ended: its own last words and the kernel's exit code."""

    @property
    def state(self) -> str: ...

    @property
    def exit(self) -> str | None: ...

    @property
    def exit_code(self) -> int | None: ...


def detect(run: RunEvidence) -> list[Finding]:
    """Return the finding for a run in which a process died; none if no alert is needed.

    No alert is needed if another rule names the reason, or if the run hung until its end and was reported.
    """
    window = run.window
    dead = [rank for rank in window.ranks.values() if died(rank.process)]
    if not dead or detector.detect(run):
        return []
    occurrences = run.reported()
    first = min(dead, key=lambda rank: (last_sign_ns(rank), rank.rank))  # the same order as in the verdict
    key = f"{CODE}:rank{first.rank}"
    told = [each.finding for each in occurrences if each.finding.code == CODE]
    if any((finding.key, finding.pid) != (key, first.process.pid) for finding in told):
        return []
    death = _judged(window, [each for each in occurrences if each.finding.code != CODE])
    if isinstance(death, Verdict):
        return []
    finding = Finding(
        key=key,
        code=CODE,
        scenario="" if first.process.exit else "S37",
        severity="critical",
        confidence=_CONFIDENCE,
        began_ns=first.made_ns,
        rule=death.id,
        params=death.params,
        evidence=[
            observed("last-words", (first.process.exit or "none")[:300], "text"),
            *output_evidence(first.process),
        ],
        rank=first.rank,
        host=first.host,
        pid=first.process.pid,
    )
    return [finding]


def crash_verdict(window: RunWindow, occurrences: Sequence[Occurrence]) -> Verdict:
    """Return the verdict of a run in which a process died.

    If a detector knows the reason, its alert is the verdict. A run that hung until it died was most likely
    killed for that, so the hang is the verdict. Otherwise the verdict says when and where the process died.
    """
    judged = _judged(window, occurrences)
    return verdict("critical", judged.id, None, **judged.params) if isinstance(judged, Text) else judged


def _judged(window: RunWindow, occurrences: Sequence[Occurrence]) -> Verdict | Text:
    """Return the verdict; if the reason is unknown, only the message about the death."""
    known = next((item for item in occurrences if item.finding.code == CODE), None)
    if known is not None:
        before_s = warned_s(known.finding)
        warned = None if before_s is None else Text("death-was-warned-of", {"before_s": before_s})
        return _alert_and(known, warned)
    ended = sorted(
        (rank for rank in window.ranks.values() if rank.process.state == "crashed"),
        key=lambda rank: (last_sign_ns(rank), rank.rank),
    )
    if not ended:
        return Text("some-process-crashed")
    # A launcher stops the other ranks once one has died, and they end with an exit code.
    # These others may have stood still for longer than the rank that died first.
    not_stopped = [rank for rank in ended if not stopped(rank.process)]
    first = next((rank for rank in not_stopped if died(rank.process)), (not_stopped or ended)[0])
    hang = next((item for item in occurrences if _lasted_until_death(item, first)), None)
    if hang is not None:
        return _alert_and(hang, Text("ended-in-hang", {**_who(first, window), "clock": _clock(first)}))
    request = _request(ended)
    if request is not None:
        return request
    rule, params = _advice(first, window.hosts.get(first.host))
    return Text(rule, {**_words(first, window, ended), **params})


def _request(ended: Sequence[RankWindow]) -> Verdict | None:
    """Return the verdict of a run that somebody stopped; None if a process ended in another way.

    Ctrl-C goes to all processes of a terminal, so it also explains ranks that vanished silently. SIGTERM does
    not: launchers send it after another rank has died.
    """
    stopped_ranks = [rank for rank in ended if stopped(rank.process)]
    by_hand = [rank for rank in stopped_ranks if stopped(rank.process) == CTRL_C]
    silent = [rank for rank in ended if not ending(rank.process)] if by_hand else []
    if not stopped_ranks or len(stopped_ranks) + len(silent) < len(ended):
        return None
    first = (by_hand or stopped_ranks)[0]
    by = stopped(first.process)
    return verdict("info", "run-was-stopped", by=by, where=_where(first), by_hand=bool(by_hand))


def _alert_and(alert: Occurrence, more: Text | None) -> Verdict:
    """Return the verdict with an alert's words, and one more sentence after its title."""
    title, advice = text_of(alert.finding, "title"), text_of(alert.finding, "advice")
    if more is not None:
        title = Text("one-after-another", {"first": title, "next": more})
    return verdict("critical", "verdict-of-alert", alert.id, title=title, advice=advice)


def died(process: ProcessInfo) -> bool:
    """Whether the process died of a fault that it could not handle.

    A process that vanished silently and without an exit code counts: it was most likely killed.
    """
    if process.state != "crashed" or stopped(process):
        return False
    if process.exit:
        return not _EXIT_CODE.match(process.exit)
    return process.exit_code is None or process.exit_code < 0


def ending(process: Ended) -> str | None:
    """Return how the process ended: its own words, else the kernel's exit code or signal; None if unknown."""
    if process.exit or not process.exit_code or process.state == "live":
        return process.exit
    return f"exit code {process.exit_code}" if process.exit_code > 0 else signal_name(-process.exit_code)


def _lasted_until_death(hang: Occurrence, dead: RankWindow) -> bool:
    """Whether a hang was reported and this process stood still in it until its death.

    The process stood still in the hang if its last phase began before the alert and lasted at least half of
    the hang. A last sign of life is up to a second older than the death, and a busy server looks seldom. So a
    hang may seem to open after the death, or to close before it. A process that died at work did not hang.
    """
    if hang.finding.code != "hung" or hang.finding.severity == "info":
        return False
    died_ns = last_sign_ns(dead)
    if dead.span is not None and dead.span.since_ns < hang.opened_ns:
        hung_ns = hang.opened_ns - hang.finding.began_ns
        if (died_ns - dead.span.since_ns) * 2 >= hung_ns:
            return True
    closed_before = hang.closed_ns is not None and hang.closed_ns < died_ns - MOMENT_NS
    return hang.opened_ns <= died_ns and not closed_before


def _who(rank: RankWindow, window: RunWindow) -> dict[str, Param]:
    """Return the parameters of the message ``crashed-process``."""
    world = max(len(window.ranks), rank.process.world_size)
    return {
        "rank": rank.rank if world > 1 else None,
        "pid": rank.process.pid,
        "host": rank.host if len(window.hosts) > 1 else None,
    }


def _clock(rank: RankWindow) -> str:
    return time.strftime("%H:%M:%S %Z", time.localtime(last_sign_ns(rank) / 1e9))


def _words(rank: RankWindow, window: RunWindow, ended: Sequence[RankWindow]) -> dict[str, Param]:
    """Return the parameters of title and cause for a process that died: who, how, when and where."""
    how = ending(rank.process)
    return {
        **_who(rank, window),
        "how": _last_words(how),
        "clock": _clock(rank),
        "where": _where(rank),
        "others": sum(not stopped(other.process) for other in ended) - (not stopped(rank.process)),
        "last_words": rank.process.exit[:300] if rank.process.exit else None,
        "ended_by": _exit_code(how) if how else None,
    }


def _last_words(how: str | None) -> Text | str | None:
    """Return one line on how the process ended: the agent's words, else the kernel's."""
    lines = (how or "").strip().splitlines()
    return _exit_code(_shortened(lines[-1].strip())) if lines else None


def _exit_code(how: str) -> Text | str:
    """Return an exit code as a message, and any other ending unchanged."""
    alone = _EXIT_ALONE.fullmatch(how)
    return how if alone is None else Text("exit-code", {"exit_code": int(alone["code"])})


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXIT_LENGTH else line[: _EXIT_LENGTH - 1] + "…"


def _where(rank: RankWindow) -> Text | None:
    """Return where in its script a process died; None if unknown."""
    span = rank.span
    if span is None:
        return None
    if span.phase == "outside":
        return _outside(rank, span)
    return Text("place-in-step", {"step": _steps(span), "epoch": span.epoch, **_doing(span)})


def _doing(span: SpanInfo) -> dict[str, Param]:
    """Return the parameters for what a process was doing in a step."""
    if span.phase == "user":
        return {"doing": "phase", "phase": repr(span.phase_name)} if span.phase_name else {"doing": None}
    worker = span.awaited_worker
    return {
        "doing": span.phase if span.phase in _DOING else None,
        "awaited": worker if worker is not None and worker >= 0 else None,
    }


def _outside(rank: RankWindow, span: SpanInfo) -> Text:
    """Return where a process outside all loops died. An error inside a loop ends that loop's epoch first."""
    step: dict[str, Param] = {"step": _steps(span)}
    left = left_epoch(rank)
    if left is not None:
        if left.loader is not None and left.loader.role == "eval":
            return Text("place-in-pass", {**step, "loader": left.loader.name})
        doing = left.phase if left.phase in _ERROR_IN else None
        return Text("place-in-left-epoch", {**step, "epoch": left.epoch, "doing": doing, "awaited": None})
    ends = rank.table("epoch_ends")
    training_rows = [
        row
        for row, number in enumerate(ends["loader"].tolist())
        if (loader := loader_of(rank, number)) is None or loader.role == "train"
    ]
    if not training_rows:
        return Text("place-outside-loops", step) if span.steps else Text("place-before-first-epoch")
    last = training_rows[-1]
    exhausted = bool(ends["ended_by"][last] == EndedBy.EXHAUSTED)
    return Text("place-after-epoch", {**step, "exhausted": exhausted, "epoch": int(ends["epoch"][last])})


def _steps(span: SpanInfo) -> int:
    """Return the training steps of the process; if its agent sent none, the batches of the current loader."""
    return span.steps or span.step or 0


def _advice(rank: RankWindow, host: HostWindow | None) -> tuple[str, dict[str, Param]]:
    """Return the rule for a death of unknown cause, with the parameters of its advice."""
    params: dict[str, Param] = {"gone": 0, "gone_workers": None}
    gone = [w for w in rank.workers if not w.alive]
    living = [w for w in rank.workers if w.alive]
    if gone and living:  # workers that died together with the training process are no evidence
        params["gone"] = len(gone)
        params["gone_workers"] = [Text("worker-with-pid", {"worker": w.worker, "pid": w.pid}) for w in gone]
    error = uncaught(rank.process)
    if error is not None:  # the process named its error; kernel log and memory add nothing
        return "uncaught-error", {**params, "error": _shortened(error)}
    code = rank.process.exit_code
    if _EXIT_CODE.match(ending(rank.process) or ""):
        return "exit-code-chosen", params
    if not rank.process.exit and code is not None and code != -SIGKILL:
        return "fault-in-native-code" if -code in _FAULTS else "signal-was-sent", params
    params.update(_memory(rank, host))
    params["look"] = Text("look-at-stderr" if code is None else "look-who-killed")
    return "process-vanished" if code is None else "process-was-killed", params


def _memory(rank: RankWindow, host: HostWindow | None) -> dict[str, Param]:
    """Return whether memory was short, with the figures as far as they are known.

    Only SIGKILL can come from the kernel's out-of-memory killer, so other deaths are not checked.
    """
    free = total = None
    if host is not None:
        free, total = (_last(host.hosts, f"memory_{name}_bytes") for name in ("available", "total"))
    if free is None or not total:
        return {"short": False, "free_bytes": None}
    return {
        "short": free < _MEMORY_SHORT * total,
        "free_bytes": free,
        "host_bytes": total,
        "held_bytes": _last(rank.table("processes"), "rss_bytes", rank.process.pid),
    }


def _last(columns: Mapping[str, Any], name: str, pid: int | None = None) -> float | None:
    values = columns[name]
    if pid is not None:
        values = values[columns["pid"] == pid]
    values = values[~np.isnan(values)] if values.dtype.kind == "f" else values[values != UNKNOWN]
    return float(values[-1]) if len(values) else None
