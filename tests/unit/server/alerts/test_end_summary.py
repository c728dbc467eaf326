"""What is said at the end of a run."""

from __future__ import annotations

from typing import Any

import msgspec

from loaderwatch.core import answers
from loaderwatch.server.alerts.end_summary import closing_of, summary_message


def summary(state: Any = "finished", lost_s: float = 0.0, steps: int = 12340) -> answers.Summary:
    return answers.Summary(
        run_id="resnet-1", name="resnet", state=state, started_at=0.0, last_seen_at=0.0, now=0.0,
        world_size=1,
        hosts=[], steps=steps, steps_per_s=None, data_wait_ratio=None, gpu_utilization_ratio=None,
        gpu_starved_ratio=None, compute_duty_ratio=None, goodput_ratio=None, lost_s=lost_s, lost_records=0,
        simulated_gpu=False, epochs=None, loaders=[], ranks=[],
        verdict=answers.Verdict(severity="critical", title="It crashed.", advice="Read the traceback."),
    )  # fmt: skip


def found(title: str, lost_s: float | None, severity: Any = "warning") -> answers.Finding:
    return answers.Finding(
        id="x", key="k", code="input-bound", scenario="S02", severity=severity, state="resolved",
        confidence=0.9,
        rank=0, host=None, worker=None, pid=None, sample_indices=[], began_at=0.0, ended_at=None, title=title,
        cause="",
        advice=f"Mend what made it: {title} It is worth the while, and here is how it is done. More.",
        evidence=[], lost_s=lost_s, gain_ceiling_ratio=None, stacks=[],
    )  # fmt: skip


def test_what_cost_most_comes_first_and_says_what_to_change() -> None:
    all_of_it = [
        found("The loop waits.", 600.0),
        found("Rank 0 hung.", 1800.0, "critical"),
        found("A remark.", 900.0, "info"),
        found("Too little.", 5.0),
        found("Epochs begin slowly.", 300.0),
        found("A sample is slow.", 200.0),
    ]
    closing = closing_of(summary(lost_s=2400.0), all_of_it, 7200.0, "http://x")
    assert closing.lost == "40 min 0 s (33 %) lost (the items below overlap)"
    assert closing.lines == [
        "30 min 0 s: Rank 0 hung.",
        "10 min 0 s: The loop waits.",
        "5 min 0 s: Epochs begin slowly.",
        "1 more on the page",
    ]
    assert (
        closing.advice == "Mend what made it: Rank 0 hung. It is worth the while, and here is how it is done"
    )
    assert closing.link == "http://x/#/runs/resnet-1"
    told = summary_message(summary(lost_s=2400.0), closing, 7200.0)
    assert told.kind == "warning"
    assert told.title == "Finished: resnet, 12,340 steps in 2 h 0 min"
    assert told.body.startswith(
        "40 min 0 s (33 %) lost (the items below overlap).\n30 min 0 s: Rank 0 hung.\n"
    )
    assert told.body.endswith(f"\nchange first: {closing.advice}\n\nhttp://x/#/runs/resnet-1")


def test_what_does_not_overlap_is_not_said_to() -> None:
    closing = closing_of(
        summary(lost_s=2400.0), [found("A.", 1800.0), found("B.", 600.0)], 7200.0, "http://x"
    )
    assert closing.lost == "40 min 0 s (33 %) lost"
    closing = closing_of(summary(lost_s=1700.0), [found("A.", 1800.0)], 7200.0, "http://x")
    assert closing.lost == "28 min 20 s (24 %) lost"


def test_nothing_lost_is_said_as_that() -> None:
    closing = closing_of(summary(lost_s=2.5), [found("A remark.", 2.0, "info")], 600.0, "http://x")
    assert (closing.lines, closing.found) == ([], False)
    assert closing.lost == "almost no time lost to data wait (2.5 s)"
    told = summary_message(summary(lost_s=2.5), closing, 600.0)
    assert told.kind == "info"
    assert told.body == ("Almost no time lost to data wait (2.5 s).\n\nhttp://x/#/runs/resnet-1")


def test_what_no_finding_explains_is_not_explained() -> None:
    closing = closing_of(summary(lost_s=60.0), [], 600.0, "http://x")
    assert closing.lost == "60 s (10 %) lost to data wait, without one main cause"
    assert closing.lines == []


def test_a_crash_says_what_it_was() -> None:
    crash = found("It crashed.", None, "critical")
    run = summary("crashed")
    closing = closing_of(run, [crash], 0.0, "http://x")
    assert closing.found
    assert (closing.lines, closing.advice) == ([], "Read the traceback")
    told = summary_message(run, closing, 0.0)
    assert told.title == "Crashed: resnet, 12,340 steps in 0.0 ms"
    assert told.body.startswith("It crashed.\n\nAlmost no time lost")


def test_a_run_that_somebody_stopped_has_not_crashed() -> None:
    run = summary("crashed", lost_s=60.0)
    request = answers.Verdict(
        severity="info", title="Stopped by SIGTERM in step 5.", advice="Nothing failed."
    )
    run = msgspec.structs.replace(run, verdict=request)
    closing = closing_of(run, [], 600.0, "http://x")
    assert closing.advice == ""
    told = summary_message(run, closing, 600.0)
    assert (told.kind, told.title) == ("info", "Stopped: resnet, 12,340 steps in 10 min 0 s")
    assert told.body.startswith("Stopped by SIGTERM in step 5.\n\n")
    closing = closing_of(run, [found("The loop waits.", 60.0)], 600.0, "http://x")
    assert closing.advice.startswith("Mend what made it: The loop waits.")


def test_a_run_that_fell_silent() -> None:
    closing = closing_of(summary("lost"), [], 60.0, "http://x")
    assert summary_message(summary("lost", steps=1), closing, 60.0).title == (
        "Contact lost: resnet, 1 step in 60 s"
    )


def test_long_titles_are_cut_to_one_line() -> None:
    (line,) = closing_of(summary(lost_s=60.0), [found("a\nb" * 400, 60.0)], 100.0, "http://x").lines
    assert len(line) < 320
    assert "\n" not in line
