"""Messages for people outside the page: a line in the job's terminal, a text for chat and e-mail."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from loaderwatch.core.printable import one_line
from loaderwatch.detect.finding import Finding, warned_s
from loaderwatch.detect.measures.stacks import main_frames, user_frame
from loaderwatch.detect.text import duration, folded_phrase
from loaderwatch.server.alerts.book import Alert, Announcement
from loaderwatch.server.alerts.channel import Kind, Message

_NOTICE_LENGTH: Final = 400
_TELLING_LENGTH: Final = 80


def run_link(base_url: str, run_id: str, rank: int | None = None) -> str:
    """Return the page's address for a run, or for one rank of it."""
    link = f"{base_url}/#/runs/{quote(run_id)}"
    return link if rank is None else f"{link}/ranks/{rank}"


def notice(announcement: Announcement, run_id: str, base_url: str) -> str:
    """Return one line for the job's stderr."""
    alert = announcement.alert
    finding = alert.finding
    if announcement.died:
        text = f"ended with the training process after {_lasted(alert)}: {finding.title}"
    elif announcement.resolved:
        text = f"resolved after {_lasted(alert)}: {finding.title}"
    else:
        text = (
            f"{finding.title.rstrip('.')}{_stuck_at(finding)}{_warned(finding)} — {beginning(finding.advice)}"
        )
    return f"loaderwatch: [{finding.code}] {_one_line(text)} — {run_link(base_url, run_id, finding.rank)}"


def message(announcement: Announcement, run_id: str, run_name: str, base_url: str) -> Message:
    """Return the message for chat and e-mail."""
    alert = announcement.alert
    finding = alert.finding
    link = run_link(base_url, run_id, finding.rank)
    if announcement.died:
        return Message(
            "warning",
            f"Ended with the training process: {finding.title} ({run_name})",
            f"It lasted {_lasted(alert)}, until the process died.{_lost(finding)}\n\n{link}",
        )
    if announcement.unheard:
        return Message(
            "warning",
            f"Nothing more is heard: {finding.title} ({run_name})",
            f"Its host or the network went away, so nobody can say whether it goes on.{_lost(finding)}\n\n{link}",
        )
    if announcement.resolved:
        return Message(
            "resolved",
            f"Resolved: {finding.title} ({run_name})",
            f"It lasted {_lasted(alert)}.{_lost(finding)}\n\n{link}",
        )
    parts = [
        finding.title,
        f"Cause: {finding.cause}",
        f"What to do: {finding.advice}",
        "\n".join(folded_phrase(folded.title, folded.warned_s) for folded in finding.folded),
        _where(finding),
        link,
    ]
    kind: Kind = "critical" if finding.severity == "critical" else "warning"
    return Message(kind, f"{finding.title} ({run_name})", "\n\n".join(part for part in parts if part))


def reminder(alert: Alert, run_id: str, run_name: str, base_url: str, now_ns: int) -> Message:
    """Return the message that an alert still goes on."""
    finding = alert.finding
    since = duration(max(0.0, (now_ns - finding.began_ns) / 1e9))
    kind: Kind = "critical" if finding.severity == "critical" else "warning"
    return Message(
        kind,
        f"Still, after {since}: {finding.title} ({run_name})",
        f"Nobody has acknowledged it on the page.{_lost(finding)}\n\nWhat to do: {finding.advice}\n\n"
        f"{run_link(base_url, run_id, finding.rank)}",
    )


def _warned(finding: Finding) -> str:
    before_s = warned_s(finding)
    return "" if before_s is None else f" (warned {duration(before_s)} before)"


def _where(finding: Finding) -> str:
    known = (
        ("rank", finding.rank),
        ("host", finding.host),
        ("worker", finding.worker),
        ("pid", finding.pid),
        ("sample", ", ".join(map(str, finding.sample_indices)) or None),
    )
    return ", ".join(f"{name} {value}" for name, value in known if value is not None)


def _lost(finding: Finding) -> str:
    return "" if not finding.lost_s else f" Training time lost: {duration(finding.lost_s)}."


def _lasted(alert: Alert) -> str:
    ended_ns = alert.finding.ended_ns or alert.closed_ns or alert.updated_ns
    return duration(max(0.0, (ended_ns - alert.finding.began_ns) / 1e9))


def _stuck_at(finding: Finding) -> str:
    """Return the line of the user's own code at which a run hangs: who reads the terminal has the script open."""
    if finding.code != "hung":
        return ""
    frames = (user_frame(main_frames(stack)) for stack in finding.stacks)
    where = next((str(frame) for frame in frames if frame is not None), None)
    return "" if where is None or where in finding.title else f", stuck at {where}"


def beginning(advice: str) -> str:
    """Return the first sentences of an advice: as many as needed, since the first may be just "Mend rank 1 on vm"."""
    first, *others = advice.split(". ")
    for sentence in others:
        if len(first) >= _TELLING_LENGTH:
            break
        first = f"{first}. {sentence}"
    return first.rstrip(".")


def _one_line(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _NOTICE_LENGTH else line[: _NOTICE_LENGTH - 1] + "…"
