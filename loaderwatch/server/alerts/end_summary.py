"""The summary at the end of a run: its steps, the time it lost and why, and what to change first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loaderwatch.core import answers
from loaderwatch.core.answers import Text
from loaderwatch.core.printable import one_line
from loaderwatch.core.wire import Closing
from loaderwatch.detect.translation import in_language
from loaderwatch.server.alerts.channel import Kind, Message
from loaderwatch.server.alerts.messages import beginning, run_link
from loaderwatch.texts import SOURCE, say

MOST_CAUSES: Final = 3
LEAST_COST_S: Final = 1.0
LEAST_COST_RATIO: Final = 0.01
"""A cause that cost a smaller share of the run gets no line at the end."""
UNEXPLAINED_RATIO: Final = 0.05
"""From this share of the run on, lost time without a finding is reported as unexplained."""
OVERLAP_RATIO: Final = 1.02
"""The lines overlap if their sum is this multiple of the lost time: ranks, or a hang in a slow epoch."""
_LINE_LENGTH: Final = 300
_ENDS: Final = ("finished", "crashed", "hung")


def closing_of(
    summary: answers.Summary,
    findings: Sequence[answers.Finding],
    took_s: float,
    base_url: str,
    language: str = SOURCE,
) -> Closing:
    """Return the last words of the run's training process, which prints its own steps and duration first.

    ``findings`` are those of the attempt, ``took_s`` is the attempt's duration so far.
    """
    warnings = in_language([one for one in findings if one.severity != "info"], language)
    least_s = max(LEAST_COST_S, LEAST_COST_RATIO * took_s)
    costly = sorted(
        (one for one in warnings if (one.lost_s or 0.0) >= least_s), key=lambda one: -(one.lost_s or 0.0)
    )
    costs = (
        Text("cost-of-alert", {"lost_s": one.lost_s or 0.0, "alert": _one_line(one.title)})
        for one in costly[:MOST_CAUSES]
    )
    lines = [say(cost, language) for cost in costs]
    if len(costly) > MOST_CAUSES:
        lines.append(say(Text("more-on-page", {"more": len(costly) - MOST_CAUSES}), language))
    advice = _first_advice(in_language(summary.verdict, language), summary, warnings, costly)
    shown = [one.lost_s or 0.0 for one in costly[:MOST_CAUSES]]
    overlaps = len(shown) > 1 and sum(shown) > OVERLAP_RATIO * (summary.lost_s or 0.0)
    return Closing(
        lost=say(_lost(summary.lost_s or 0.0, took_s, bool(costly), overlaps), language),
        lines=lines,
        advice=_one_line(beginning(advice, language)),
        link=run_link(base_url, summary.run_id),
        found=bool(warnings),
    )


def summary_message(
    summary: answers.Summary, closing: Closing, took_s: float, language: str = SOURCE
) -> Message:
    """Return the message at the end of a run; ``closing`` is in the same language."""
    stopped = _was_stopped(summary)
    end = "stopped" if stopped else summary.state if summary.state in _ENDS else "unheard"
    in_order = stopped or summary.state == "finished"
    kind: Kind = "info" if in_order and not closing.found else "warning"
    title = Text(
        "run-ended", {"end": end, "run": summary.name, "steps": summary.steps or 0, "took_s": took_s}, "title"
    )
    sentence = f"{closing.lost[:1].upper()}{closing.lost[1:]}{'。' if language == 'zh' else '.'}"
    # The crash is in its alert's message too, but not every address gets that.
    verdict = [in_language(summary.verdict, language).title] if summary.state != "finished" else []
    advice = [say(Text("change-first", {"advice": closing.advice}), language)] if closing.advice else []
    paragraphs = [*verdict, "\n".join([sentence, *closing.lines, *advice]), closing.link]
    return Message(kind, say(title, language), "\n\n".join(paragraphs))


def _was_stopped(summary: answers.Summary) -> bool:
    """Whether a person stopped the run, by Ctrl-C or a signal: nothing failed."""
    return summary.state == "crashed" and summary.verdict.severity == "info"


def _lost(lost_s: float, took_s: float, explained: bool, overlaps: bool) -> Text:
    share = min(1.0, lost_s / took_s) if took_s > 0 else 0.0
    if explained:
        return Text("lost-explained", {"lost_s": lost_s, "lost_ratio": share, "overlaps": overlaps})
    if lost_s >= LEAST_COST_S and share >= UNEXPLAINED_RATIO:
        return Text("lost-unexplained", {"lost_s": lost_s, "lost_ratio": share})
    return Text("hardly-lost", {"lost_s": lost_s})


def _first_advice(
    verdict: answers.Verdict,
    summary: answers.Summary,
    found: Sequence[answers.Finding],
    costly: Sequence[answers.Finding],
) -> str:
    """Return the advice on the run's end, else on the costliest finding, else on the gravest one."""
    if summary.state == "crashed" and not _was_stopped(summary):
        return verdict.advice
    if costly:
        return costly[0].advice
    return verdict.advice if found and not _was_stopped(summary) else ""


def _one_line(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LINE_LENGTH else line[: _LINE_LENGTH - 1] + "…"
