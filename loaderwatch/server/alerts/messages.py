"""Messages outside the page: a line for the job's terminal, a text for chat and e-mail."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from loaderwatch.core.answers import Param, Text
from loaderwatch.core.printable import one_line
from loaderwatch.detect.finding import Finding, text_of, warned_s
from loaderwatch.detect.measures.stacks import main_frames, user_frame
from loaderwatch.server.alerts.alert_book import Alert, Announcement
from loaderwatch.server.alerts.channel import Kind, Message
from loaderwatch.texts import SOURCE, say

_NOTICE_LENGTH: Final = 400
_TELLING_LENGTH: Final = 80
_STOPS: Final = {"en": ". ", "zh": "。"}
"""Separator between two sentences, by language."""


def run_link(base_url: str, run_id: str, rank: int | None = None) -> str:
    """Return the page's address of a run, or of one rank."""
    link = f"{base_url}/#/runs/{quote(run_id)}"
    return link if rank is None else f"{link}/ranks/{rank}"


def notice(announcement: Announcement, run_id: str, base_url: str, language: str = SOURCE) -> str:
    """Return one line for the job's stderr."""
    alert = announcement.alert
    finding = alert.finding
    title = text_of(finding, "title")
    if announcement.died:
        text = Text("line-ended-with-process", {"alert": title, "lasted_s": _lasted_s(alert)})
    elif announcement.resolved:
        text = Text("line-resolved", {"alert": title, "lasted_s": _lasted_s(alert)})
    else:
        title_text = say(title, language)
        params: dict[str, Param] = {
            "alert": title_text.rstrip(".。"),
            "line": _stuck_at(finding, title_text, language),
            "warned_s": warned_s(finding),
            "advice": beginning(say(text_of(finding, "advice"), language), language),
        }
        text = Text("line-began", params)
    link = run_link(base_url, run_id, finding.rank)
    return f"loaderwatch: [{finding.code}] {_one_line(say(text, language))} — {link}"


def message(
    announcement: Announcement, run_id: str, run_name: str, base_url: str, language: str = SOURCE
) -> Message:
    """Return the message for chat and e-mail."""
    alert = announcement.alert
    finding = alert.finding
    link = run_link(base_url, run_id, finding.rank)
    if announcement.died:
        return _message("warning", "alert-ended-with-process", alert, run_name, [link], language)
    if announcement.unheard:
        return _message("warning", "alert-unheard", alert, run_name, [link], language)
    if announcement.resolved:
        return _message("resolved", "alert-resolved", alert, run_name, [link], language)
    title, cause, advice = (text_of(finding, part) for part in ("title", "cause", "advice"))
    folded = (
        Text("folded-finding", {"title": text_of(f, "title"), "warned_s": f.warned_s}) for f in finding.folded
    )
    parts = [
        say(title, language),
        say(Text("alert-cause", {"cause": cause}), language),
        say(Text("alert-advice", {"advice": advice}), language),
        "\n".join(say(text, language) for text in folded),
        _where(finding, language),
        link,
    ]
    return _message(_kind(finding), "alert-began", alert, run_name, parts, language)


def reminder(
    alert: Alert, run_id: str, run_name: str, base_url: str, now_ns: int, language: str = SOURCE
) -> Message:
    """Return the message that an alert goes on."""
    finding = alert.finding
    advice = say(Text("alert-advice", {"advice": text_of(finding, "advice")}), language)
    parts = [advice, run_link(base_url, run_id, finding.rank)]
    since_s = max(0.0, (now_ns - finding.began_ns) / 1e9)
    return _message(_kind(finding), "alert-goes-on", alert, run_name, parts, language, since_s)


def _message(
    kind: Kind,
    rule: str,
    alert: Alert,
    run_name: str,
    parts: list[str],
    language: str,
    lasted_s: float | None = None,
) -> Message:
    """Return the message: a title, perhaps a first paragraph from the catalogue, then other paragraphs."""
    params: dict[str, Param] = {
        "alert": text_of(alert.finding, "title"),
        "run": run_name,
        "lasted_s": _lasted_s(alert) if lasted_s is None else lasted_s,
        "lost_s": alert.finding.lost_s or None,
    }
    title, body = (say(Text(rule, params, part), language) for part in ("title", "body"))
    return Message(kind, title, "\n\n".join(part for part in (body, *parts) if part))


def _kind(finding: Finding) -> Kind:
    return "critical" if finding.severity == "critical" else "warning"


def _where(finding: Finding, language: str) -> str:
    known: tuple[tuple[str, Param], ...] = (
        ("rank", finding.rank),
        ("host", finding.host),
        ("worker", finding.worker),
        ("pid", finding.pid),
        ("sample", ", ".join(map(str, finding.sample_indices)) or None),
    )
    sentences = (
        say(Text(f"alert-{name}", {"samples" if name == "sample" else name: value}), language)
        for name, value in known
        if value is not None
    )
    return ("，" if language == "zh" else ", ").join(sentences)


def _lasted_s(alert: Alert) -> float:
    ended_ns = alert.finding.ended_ns or alert.closed_ns or alert.updated_ns
    return max(0.0, (ended_ns - alert.finding.began_ns) / 1e9)


def _stuck_at(finding: Finding, title: str, language: str) -> Text | None:
    """Return the user's own line at which a run hangs: the reader of the terminal has the script open."""
    if finding.code != "hung":
        return None
    frames = (user_frame(main_frames(stack)) for stack in finding.stacks)
    frame = next((frame for frame in frames if frame is not None), None)
    return None if frame is None or say(frame.text, language) in title else frame.text


def beginning(advice: str, language: str = SOURCE) -> str:
    """Return an advice's first sentences, as many as needed: the first may be just "Read the stack"."""
    stop = _STOPS[language]
    first, *others = advice.split(stop)
    for sentence in others:
        if len(first) >= _TELLING_LENGTH:
            break
        first = f"{first}{stop}{sentence}"
    return first.rstrip(".。")


def _one_line(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _NOTICE_LENGTH else line[: _NOTICE_LENGTH - 1] + "…"
