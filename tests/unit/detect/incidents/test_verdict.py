"""The one sentence about a run."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from loaderwatch.core.facts import Call, PhaseName, ProcessState
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, Texts
from loaderwatch.detect.incidents.tracker import Incident
from loaderwatch.detect.incidents.verdict import verdict_of
from loaderwatch.server.live.summary import summary_of
from loaderwatch.server.window.totals import RunTotals
from loaderwatch.texts.formats import percent
from tests.fakes.findings import reworded
from tests.unit.detect import stacks
from tests.unit.detect.build import T0, RankBuilder, S, run, verdict_now


def test_healthy_with_numbers() -> None:
    ranks = [RankBuilder(0, 2), RankBuilder(1, 2)]
    for rank in ranks:
        for number in range(300):
            rank.fetch(number % 2, 0.03).step(0.0016, 0.0784, ready=4)
    window = run(*ranks)
    said = verdict_now(window, detect(RunEvidence(window)))
    assert (said.severity, said.finding_id) == ("ok", None)
    assert said.title == "Healthy: data wait takes 2 % of each iteration; 12.5 steps/s on 2 ranks."


def test_a_remark_on_the_data_wait_is_the_verdict_beside_it() -> None:
    """A stream at its source's pace raises no alert. The verdict must not say that the cause is unknown."""
    rank = RankBuilder()
    for number in range(60):
        rank.fetch(number % 2, 0.03).step(0.4, 0.02)
    window = run(rank)
    (found,) = (one for one in detect(RunEvidence(window)) if one.code == "input-bound")
    said = verdict_now(window, [msgspec.structs.replace(found, severity="info")])
    assert (said.severity, said.title) == ("info", found.title)


@pytest.mark.parametrize(
    ("worker", "said"),
    [
        ({"phase": "fetch", "sample_index": 511}, "; worker 0 is reading dataset[511]"),
        ({"phase": "idle"}, "; worker 0 is idle"),
        ({"phase": "fetch", "alive": False}, "; worker 0 is dead"),
        (None, ""),
    ],
)
def test_a_long_open_wait_is_said_before_it_is_a_hang(worker: dict[str, Any] | None, said: str) -> None:
    rank = RankBuilder()
    for number in range(26):
        rank.fetch(number % 2, 0.03).step(0.0016, 0.0784)
    rank.open("wait", 7.0, awaited_worker=0)
    if worker is not None:
        rank.worker(0, age=7.0, **worker)
    verdict = verdict_now(run(rank), [])
    assert verdict.severity == "info"
    assert verdict.title == (
        f"Training has waited 7.0 s for batch 26{said}; longer than usual, not yet an alert."
    )


@pytest.mark.parametrize(("usual_s", "age"), [(0.0016, 2.0), (4.0, 7.0)])
def test_a_wait_like_others_is_not_said(usual_s: float, age: float) -> None:
    rank = RankBuilder()
    for number in range(26):
        rank.fetch(number % 2, 0.03).step(usual_s, 0.0784)
    assert "has waited" not in verdict_now(run(rank.open("wait", age)), []).title


@pytest.mark.parametrize(
    ("phase", "age", "said"),
    [
        (
            "step",
            7.0,
            "Training has been in step 26 for 7.0 s, at train.py:61 in main;"
            " longer than usual, not yet an alert.",
        ),
        (
            "backward",
            7.0,
            "Training has been in step 26 for 7.0 s, at train.py:61 in main;"
            " longer than usual, not yet an alert.",
        ),
        ("step", 2.0, None),
        (
            "outside",
            14.0,
            "Training has been between two epochs of its loader for 14 s, at train.py:61 in main;"
            " longer than usual, not yet an alert.",
        ),
        ("outside", 7.0, None),  # it is the first gap
    ],
)
def test_work_that_goes_on_is_said_before_it_is_a_hang(
    phase: PhaseName, age: float, said: str | None
) -> None:
    rank = RankBuilder()
    for number in range(26):
        rank.fetch(number % 2, 0.03).step(0.0016, 0.0784)
    rank.calls = [Call(file="/home/me/project/train.py", function="main", line=58, loop=(55, 65))]
    rank.open(phase, age, step=26).stack(-1, 100, stacks.main_in(user="main"))
    title = verdict_now(run(rank), []).title
    assert title == said if said is not None else "not yet an alert" not in title


def test_the_verdict_says_the_tiles_share_also_while_a_wait_goes_on() -> None:
    """Five seconds are not long against waits of two, but they are a sixth of the last half minute."""
    rank = RankBuilder()
    for number in range(400):
        rank.fetch(number % 2, 0.03).step(2.0 if number % 60 == 0 else 0.0016, 0.0984)
    window = run(rank.open("wait", 5.0))
    use = RunEvidence(window).use
    assert use.wait_ratio is not None
    assert use.wait_ratio > 0.2
    said = verdict_now(window, [])
    assert (said.severity, said.title) == (
        "info",
        f"Data wait took {percent(use.wait_ratio)} of each iteration; not yet an alert.",
    )


def test_the_verdicts_speed_is_the_tiles() -> None:
    rank = RankBuilder()
    for number in range(400):
        rank.fetch(number % 2, 0.03).step(0.0016, 0.0984, optimizer_steps=int(number % 4 == 3))
    window = run(rank)
    use = RunEvidence(window).use
    assert use.steps_per_s == pytest.approx(2.5, abs=0.05)
    assert "; 2.5 steps/s on 1 rank." in verdict_now(window, []).title


def test_a_short_run_is_judged_by_the_devices_clock() -> None:
    """The loop stands in next(loader) for 95 % of the time, and the GPU lacks nothing."""
    rank = RankBuilder()
    for _ in range(40):
        began_ns = rank.now_ns
        rank.step(0.095, 0.005)
        rank.add("gpu_waits", loader=0, request_ns=began_ns, starved_ns=0, gpu_step_ns=S // 10)
    rank.state = "finished"
    said = verdict_now(run(rank), [])
    assert said.severity == "ok"
    assert "Data wait took 0 % of 4.0 s" in said.title


def test_long_steps_that_wait_are_never_green() -> None:
    """Three steps of eight seconds in the last half minute, three quarters of which are data wait."""
    rank = RankBuilder()
    for _ in range(10):
        rank.step(6.0, 2.0)
    said = verdict_now(run(rank.open("step", 1.0, steps=10)), [])
    assert (said.severity, said.title[:14]) == ("info", "Data wait took")
    assert "not yet an alert" in said.title


def test_few_long_steps_are_enough_to_be_well() -> None:
    rank = RankBuilder()
    for _ in range(10):
        rank.step(0.1, 7.9)
    said = verdict_now(run(rank.open("step", 1.0, steps=10)), [])
    assert (said.severity, said.title) == (
        "ok",
        "Healthy: data wait takes 1.0 % of each iteration; 0.10 steps/s on 1 rank.",
    )


def test_that_no_step_ended_is_said_only_where_it_is_true() -> None:
    rank = RankBuilder()
    for _ in range(6):
        rank.step(0.1, 1.0)
    rank.now_ns += 28 * S  # evaluation, say
    rank.step(0.1, 1.0).open("step", 0.5, steps=7)
    assert verdict_now(run(rank), []).title == (
        "Too few recent training steps for a verdict; 7 steps so far."
    )
    long = RankBuilder()
    for _ in range(6):
        long.step(0.1, 40.0)
    assert "No training step" not in verdict_now(run(long.open("step", 2.0, steps=6)), []).title
    still = verdict_now(run(long.open("step", 36.0, steps=6)), [])
    assert still.title == "No training step ended in the last 30 seconds; 6 steps so far."


@pytest.mark.parametrize("age", [0.5, 5.0])
def test_the_very_first_wait_is_never_green(age: float) -> None:
    said = verdict_now(run(RankBuilder().open("wait", age)), [])
    assert said.severity == "info"
    assert said.title.startswith("Warming up. Data wait took 100 % of ")


def test_a_first_batch_has_more_patience() -> None:
    assert "has waited" not in verdict_now(run(RankBuilder().open("wait", 9.0)), []).title
    said = verdict_now(run(RankBuilder().open("wait", 11.0)), []).title
    assert said.startswith("Training has waited 11 s for batch 0")


def test_warming_up() -> None:
    window = run(RankBuilder().step(3.0, 1.0))
    assert verdict_now(window, []).title.startswith("Warming up")


def test_the_worst_finding_speaks() -> None:
    rank = RankBuilder()
    for _ in range(100):
        rank.fetch(0, 0.2, cpu=0.1).fetch(1, 0.2, cpu=0.1).step(0.16, 0.02).step(0.0, 0.02)
    window = run(rank)
    (finding,) = detect(RunEvidence(window))
    said = verdict_now(window, [finding])
    assert (said.severity, said.title, said.finding_id) == ("critical", finding.title, finding.key)
    unsure = verdict_now(window, [])
    assert unsure.severity == "info", "never green beside so much data wait"
    assert "Healthy" not in unsure.title


def test_what_is_about_to_end_it_speaks_before_what_slows_it_down() -> None:
    rank = RankBuilder()
    for _ in range(100):
        rank.fetch(0, 0.2, cpu=0.1).fetch(1, 0.2, cpu=0.1).step(0.16, 0.02).step(0.0, 0.02)
    window = run(rank)
    (slow,) = detect(RunEvidence(window))
    full = reworded(
        slow, key="running-out:memory:box", code="running-out", title="Memory runs out.", lost_s=None
    )
    hung = reworded(slow, key="hung:rank0", code="hung", title="It hangs.", lost_s=1.0)
    assert verdict_now(window, [slow, full]).title == full.title
    assert verdict_now(window, [slow, full, hung]).title == hung.title
    assert verdict_now(window, [slow, msgspec.structs.replace(full, severity="warning")]).title == slow.title


def test_a_crash_and_an_end() -> None:
    rank = RankBuilder()
    rank.state = "crashed"
    said = verdict_now(run(rank), [])
    assert said == verdict_now(run(rank), [], "crashed"), "the same, whatever the run's state says"
    assert said.title.startswith("The training process (pid 100) crashed at ")
    assert said.severity == "critical"
    rank.state = "finished"
    assert verdict_now(run(rank), []).title.startswith("Finished")


def test_a_lost_run_keeps_what_was_said_of_it_last() -> None:
    rank = RankBuilder()
    for _ in range(100):
        rank.fetch(0, 0.2, cpu=0.1).fetch(1, 0.2, cpu=0.1).step(0.16, 0.02).step(0.0, 0.02)
    window = run(rank)
    (slow,) = detect(RunEvidence(window))
    for ended_ns in (None, window.now_ns):  # what the silence closed was open when it began
        unheard = msgspec.structs.replace(slow, ended_ns=ended_ns)
        said = verdict_of("lost", lambda: RunEvidence(window), [incident(unheard)], silent_s=200.0)
        assert said.title == (
            f"No contact with the run for 3 min 20 s; its state is unknown. At the last contact: {slow.title}"
        )
        assert (said.severity, said.finding_id) == (slow.severity, slow.key)
        assert said.advice.startswith(slow.advice)
        assert "can reach this server" in said.advice
    over = msgspec.structs.replace(slow, ended_ns=window.now_ns - S)
    said = verdict_of("lost", lambda: RunEvidence(window), [incident(over)], silent_s=200.0)
    assert said.finding_id is None
    healthy = RankBuilder()
    for number in range(300):
        healthy.fetch(number % 2, 0.03).step(0.0016, 0.0784, ready=4)
    said = verdict_of("lost", lambda: RunEvidence(run(healthy)), [], silent_s=20.0)
    assert said.severity == "info", "silence is no alert, and no clean bill of health"
    assert "At the last contact: Healthy" in said.title
    assert "ended" not in said.title


def incident(finding: Finding) -> Incident:
    return Incident(id=finding.key, key=finding.key, finding=finding, opened_ns=T0, updated_ns=T0)


def test_who_is_not_watched_any_more_does_not_stand_outside_the_loop() -> None:
    ranks = [RankBuilder(number, world_size=2) for number in range(2)]
    for rank in ranks:
        for number in range(300):
            rank.fetch(number % 2, 0.03).step(0.0016, 0.0784, ready=4)
    ranks[1].open("outside", 100.0)
    ranks[1].faults = 5
    said = verdict_now(run(*ranks), [])
    assert said.severity == "info"
    assert said.title == (
        "loaderwatch stopped watching on rank 1 after 5 errors of its own; training goes on."
    )
    ranks[1].state = "finished"
    assert "stopped watching" not in verdict_now(run(*ranks), []).title


def test_a_break_between_epochs_is_no_warm_up() -> None:
    rank = RankBuilder()
    for number in range(300):
        rank.fetch(number % 2, 0.03).step(0.0016, 0.0784, ready=4)
    rank.open("outside", 100.0)
    said = verdict_now(run(rank), [])
    assert said.title == "Training has been outside its loop for 100 s; 300 steps so far."


def test_a_break_that_does_not_end_says_where() -> None:
    rank = RankBuilder()
    for number in range(300):
        rank.fetch(number % 2, 0.03).step(0.0016, 0.0784, ready=4)
    rank.open("outside", 400.0).stack(-1, 100, stacks.main_in(user="report")).half_a_minute()
    window = run(rank)
    said = verdict_now(window, detect(RunEvidence(window)))
    assert (said.severity, said.finding_id) == ("info", "hung:rank0")
    assert "train.py:61 in report" in said.title


def test_a_script_in_which_no_loader_is_iterated_gets_no_clean_bill_of_health() -> None:
    said = verdict_now(run(RankBuilder().open("outside", 5.0)), [])
    assert said.title.startswith("Warming up")
    silent = RankBuilder(loaders=[]).open("outside", 15.0, steps=500)  # the optimizer's are counted
    said = verdict_now(run(silent), [])
    assert (said.severity, said.title) == ("info", "No loader has been iterated yet: nothing is measured.")
    assert "iterate the returned object" in said.advice
    silent.state = "finished"
    said = verdict_now(run(silent), [])
    assert (said.severity, said.title) == ("info", "Finished. No loader was iterated: nothing was measured.")
    starting = RankBuilder().open("iter", 60.0)
    assert "nothing is measured" not in verdict_now(run(starting), []).title
    begun = RankBuilder().step(0.1, 0.1).open("outside", 60.0)
    assert "nothing is measured" not in verdict_now(run(begun), []).title
    other = RankBuilder(1, 2).step(0.1, 0.1).open("outside", 60.0)
    assert (
        "nothing is measured"
        not in verdict_now(run(RankBuilder(0, 2).open("outside", 60.0), other), []).title
    )


def short_run(state: ProcessState = "finished") -> RankBuilder:
    """Six seconds, of which the first wait took three."""
    rank = RankBuilder()
    rank.state = state
    rank.add("epoch_begins", loader=0, epoch=0, iter_ns=S // 100, first_wait_ns=3 * S)
    rank.now_ns += S // 100
    rank.step(3.0, 0.45)
    for _ in range(3 if state == "live" else 5):
        rank.step(0.25, 0.25)
    return rank


def test_a_run_that_was_too_short_for_a_diagnosis_says_its_shares() -> None:
    rank = short_run()
    rank.now_ns += 60 * S  # until the process was gone
    said = verdict_now(run(rank), [])
    assert said.title == (
        "Finished: every training process ended by itself. Data wait took 71 % of 6.0 s;"
        " a diagnosis needs about 10 s of steps."
    )
    assert said.severity == "info"
    assert "loaderwatch doctor" in said.advice


def test_so_does_one_that_warms_up() -> None:
    said = verdict_now(run(short_run("live")), [])
    assert said.title == ("Warming up. Data wait took 76 % of 5.0 s; a diagnosis needs about 10 s of steps.")
    waiting = RankBuilder().add("epoch_begins", loader=0, epoch=0, iter_ns=S).open("wait", 3.0)
    assert "Data wait took" in verdict_now(run(waiting), []).title


def test_starts_of_an_epoch_are_told_apart_from_waits() -> None:
    rank = short_run()
    rank.rows["epoch_begins"][0]["request_ns"] = T0 - 3 * S
    rank.rows["epoch_begins"][0]["iter_ns"] = 3 * S
    assert (
        "Data wait took 47 % of 9.0 s, epoch starts 33 %; a diagnosis needs"
        in verdict_now(run(rank), []).title
    )


def test_a_short_healthy_run_has_nothing_to_advise() -> None:
    rank = RankBuilder()
    rank.state = "finished"
    for _ in range(20):
        rank.step(0.001, 0.2)
    said = verdict_now(run(rank), [])
    assert (said.severity, said.advice) == ("ok", "")
    assert "Data wait took 0.5 % of 4.0 s" in said.title


def test_a_run_that_was_long_enough_needs_no_excuse() -> None:
    rank = RankBuilder()
    rank.state = "finished"
    for _ in range(200):
        rank.step(0.001, 0.2)
    assert verdict_now(run(rank), []).title == "Finished: every training process ended by itself."
    early = RankBuilder().add(
        "epoch_begins", loader=0, epoch=0, iter_ns=S
    )  # its steps are older than the window
    early.state = "finished"
    assert verdict_now(run(early), []).title == "Finished: every training process ended by itself."


def test_the_summary_says_the_same_sentence() -> None:
    window = run(short_run())
    totals = RunTotals(
        steps={}, eval_batches={}, wait_s={}, step_s={}, epochs={}, boundary_s={}, lost_records=0
    )
    said = summary_of(RunEvidence(window), totals, state="finished").verdict
    assert said == verdict_now(window, []) == verdict_now(window, [], "finished")


def test_a_forecast_that_did_not_come_true_is_a_remark_at_the_end() -> None:
    rank = RankBuilder()
    rank.step(0.01, 0.1)
    rank.state = "finished"
    forecast = Finding(
        key="running-out:memory:box", code="running-out", scenario="S24", severity="critical",
        confidence=0.9, began_ns=T0,
        texts=Texts(title="Memory runs out in about 60 s.", cause="", advice="Bound the cache."),
    )  # fmt: skip
    said = verdict_now(run(rank), [forecast], "finished")
    assert said.severity == "info"
    assert said.title == f"Finished before the forecast came true: {forecast.title}"
    slow = reworded(forecast, key="slow", code="slow-step", severity="warning", title="Steps are slow.")
    said = verdict_now(run(rank), [forecast, slow], "finished")
    assert (said.severity, said.title) == ("warning", "Finished. While it ran: Steps are slow.")
    assert verdict_now(run(rank), [forecast], "live").severity == "critical"
