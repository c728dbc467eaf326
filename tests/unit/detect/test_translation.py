"""Answers in the language of their reader."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from loaderwatch.core import answers
from loaderwatch.core.answers import Param, Text
from loaderwatch.detect.finding import Finding, verdict
from loaderwatch.detect.incidents.explained_findings import absorb
from loaderwatch.detect.translation import in_language
from loaderwatch.server.alerts.alert_book import Alert, shape
from tests.fakes.findings import finding_of
from tests.fakes.summaries import rank_row, summary_with

FULL: dict[str, Param] = {"shm_bytes": 64e6, "ahead": 8, "batch_bytes": 38e6}
FACTS: dict[str, Any] = {
    "key": "crashed:0", "code": "crashed", "scenario": "S39", "severity": "critical", "confidence": 0.9,
    "began_ns": 1,
}  # fmt: skip


def answer_of(finding: Finding) -> answers.Finding:
    return shape(Alert("run-1.crashed", finding, "firing", 1, 1))


def full(**more: Any) -> Finding:
    because = Text("shared-memory-full", FULL, "because")
    frame = Text("training-died", {"rank": None, "because": because})
    return Finding(rule="shared-memory-full", params=FULL, frame=frame, **FACTS, **more)


def test_every_sentence_of_a_finding_is_said_again() -> None:
    english = answer_of(full(also=[Text("found-at-work", {"worker": 1, "line": "train.py:3 in load"})]))
    assert english.title == "Training died because /dev/shm is full."
    assert english.cause.endswith("Worker 1 was running train.py:3 in load (see its stack).")
    chinese = in_language(english, "zh")
    assert "/dev/shm" in chinese.title
    assert "训练" in chinese.title
    assert chinese.cause.endswith("worker 1 当时在运行 train.py:3 in load，见其堆栈。")
    words = ("title", "cause", "advice")
    assert not any("Training" in getattr(chinese, word) for word in words)
    same = {name: getattr(english, name) for name in words}
    assert msgspec.structs.replace(chinese, **same) == english, "nothing but sentences differs"


def test_what_is_folded_under_it_is_said_too() -> None:
    waits = msgspec.structs.replace(full(), key="crashed:1")
    found = in_language(answer_of(absorb(finding_of(title="It.", **FACTS), [waits])), "zh")
    assert found.title == "It.", "it has no message"
    assert found.folded[0].title == in_language(answer_of(waits), "zh").title


def test_answers_in_answers_and_lists_of_them() -> None:
    said = verdict("ok", "healthy", wait_ratio=0.05, steps_per_s=12.0, ranks=2)
    assert said.title == "Healthy: data wait takes 5 % of each iteration; 12.0 steps/s on 2 ranks."
    summary = summary_with([rank_row(0)], verdict=said)
    found: dict[str, Any] = in_language({"summary": summary, "all": [said], "number": 3, "none": []}, "zh")
    title = "正常：数据等待占每次迭代的 5%；2 个 rank，每秒 12.0 步。"
    assert found["summary"].verdict.title == found["all"][0].title == title
    assert found["summary"].ranks is not None
    assert (found["number"], found["none"]) == (3, [])


@pytest.mark.parametrize("rule", ["", "a-rule-of-tomorrow"])
def test_what_this_version_has_no_message_for_stays(rule: str) -> None:
    said = answers.Verdict(severity="ok", title="Said by another version.", rule=rule, params={"x": 1})
    assert in_language(said, "zh") == said


def test_fields_with_texts_beside_them() -> None:
    row = answers.RunRow(
        run_id="a", name="a", state="finished", started_at=0.0, last_seen_at=1.0, world_size=1, hosts=[],
        verdict="Finished: every training process ended by itself.",
        verdict_text=Text("finished", part="title"),
    )  # fmt: skip
    assert in_language([row], "zh")[0].verdict == "已结束：所有训练进程都自行退出。"
    assert in_language([row], "en") == [row]


def test_labels_and_titles_of_another_version_stay() -> None:
    """A server may send what the reader's version does not know, or knows with other parameters."""
    future = Text("a-message-of-tomorrow")
    label = answers.Evidence(label="waits", value="long", unit="text", label_text=future, value_text=future)
    assert in_language(label, "zh") == label
    english = answer_of(full())
    changed = in_language(msgspec.structs.replace(english, params={}, frame=None), "zh")
    assert (changed.title, changed.cause) == (english.title, english.cause)
    also = msgspec.structs.replace(english, also=[future])
    assert in_language(also, "zh") == also
    said = answers.Verdict(severity="ok", title="Said before.", rule="no-news", params={})
    assert in_language(said, "zh") == said


def test_answers_without_sentences_are_left_alone() -> None:
    """A summary of a thousand ranks is said in each language; its ranks need not be looked at."""
    rows = [rank_row(rank) for rank in range(3)]
    summary = in_language(summary_with(rows), "zh")
    assert all(one is other for one, other in zip(summary.ranks, rows, strict=True))
