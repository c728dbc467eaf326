"""Training processes that died of what nobody asked for, and of which no detector knows more: told once per run.

Who stops a job wants no message: SIGTERM, SIGINT, SIGHUP, an exit code and Ctrl-C are how jobs are stopped.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from loaderwatch.core.wire import ProcessInfo
from loaderwatch.detect.finding import Evidence, Finding
from loaderwatch.detect.window import RankWindow, RunWindow
from loaderwatch.server.alerts.book import Alert, Announcement
from loaderwatch.server.live.unexplained import crash_verdict
from loaderwatch.server.store.attempts import Attempt

CODE: Final = "crashed"
_STOPS: Final = (signal.SIGINT, signal.SIGTERM, 1)  # SIGHUP, which Windows has not
_STOPPED: Final = re.compile(r"(?:uncaught )?KeyboardInterrupt\b|exit code ")
_CONFIDENCE: Final = 0.3  # a detector that learns the reason later knows better


def death(window: RunWindow, found: Sequence[Finding], alerts: Sequence[Alert]) -> Finding | None:
    """The finding for a run in which a process died; None when nobody need be told, or people know already.

    They know when a detector names the reason, or when the run hung until its end and they were told of that.
    """
    dead = [rank for rank in window.ranks.values() if died(rank.process)]
    if not dead or any(finding.code == CODE for finding in found):
        return None
    first = min(dead, key=lambda rank: (rank.made_ns, rank.rank))
    told = [alert for alert in alerts if alert.finding.code == CODE]
    if any((alert.finding.key, alert.finding.pid) != (_key(first), first.process.pid) for alert in told):
        return None
    verdict = crash_verdict(window, [alert for alert in alerts if alert.finding.code != CODE])
    if verdict["finding_id"] is not None:
        return None
    return Finding(
        key=_key(first),
        code=CODE,
        scenario="" if first.process.exit else "S37",
        severity="critical",
        confidence=_CONFIDENCE,
        began_ns=first.made_ns,
        title=verdict["title"],
        cause=_cause(first.process),
        advice=verdict["advice"],
        evidence=[Evidence(label="last words", value=(first.process.exit or "none")[:300], unit="text")],
        rank=first.rank,
        host=first.host,
        pid=first.process.pid,
    )


def with_its_end(announcement: Announcement, window: RunWindow) -> Announcement:
    """What is over because its process died has not got well."""
    rank = announcement.alert.finding.rank
    about = [one for number, one in window.ranks.items() if rank in (None, number)]
    died = announcement.resolved and any(one.process.state == "crashed" for one in about)
    return replace(announcement, died=died)


def died(process: ProcessInfo) -> bool:
    """Whether it ended by what it could not handle.

    One that vanished without a word, and of which the kernel tells nothing, was most likely killed.
    """
    if process.state != "crashed":
        return False
    if process.exit:
        return not _STOPPED.match(process.exit)
    return process.exit_code is None or (process.exit_code < 0 and -process.exit_code not in _STOPS)


def ending(process: ProcessInfo | Attempt) -> str | None:
    """How it ended in a word or two: what it said itself, else what the kernel knows. None when nobody knows."""
    if process.exit or not process.exit_code or process.state == "live":
        return process.exit
    if process.exit_code >= 0:
        return f"exit code {process.exit_code}"
    try:
        return signal.Signals(-process.exit_code).name
    except ValueError:
        return f"signal {-process.exit_code}"


def _key(rank: RankWindow) -> str:
    return f"{CODE}:rank{rank.rank}"


def _cause(process: ProcessInfo) -> str:
    if process.exit:
        return f"Its last words: {process.exit[:300]}."
    how = ending(process)
    return (
        f"{how} ended it."
        if how
        else "It vanished without a word, as SIGKILL and crashes of native code leave it."
    )
