"""What is said of a run in which a process died."""

from __future__ import annotations

import time
from typing import Any

import pytest

from loaderwatch.detect.finding import Finding
from loaderwatch.server.alerts import Alert
from loaderwatch.server.crash import crash_verdict
from loaderwatch.server.windows import WindowBuilder
from tests.fakes.feed import Feed
from tests.fakes.runs import SECOND, T0, envelope, process, span, table

AT = T0 + 30 * SECOND
CLOCK = time.strftime("%H:%M:%S %Z", time.localtime(AT / 1e9))


def _verdict(*, spans: list[Any], world: int = 1, free: float = 50e9, **more: Any) -> dict[str, Any]:
    builder = WindowBuilder("run-1")
    samples = table("processes", rank=[0], worker=-1, pid=1000, t_ns=AT, rss_bytes=3e9)
    host = table("hosts", t_ns=[AT], memory_available_bytes=free, memory_total_bytes=64e9)
    crashed = process(0, world, **({"state": "crashed"} | more))
    others = [process(rank, world) for rank in range(1, world)]
    builder.add(
        envelope(31, processes=[crashed, *others], spans=spans, tables={"processes": samples, "hosts": host})
    )
    return crash_verdict(builder.window(), [])


@pytest.mark.parametrize(
    ("facts", "where"),
    [
        ({"phase": "wait", "awaited_worker": 1}, ", while waiting for data (worker 1's batch)"),
        ({"phase": "wait"}, ", while waiting for data"),
        ({"phase": "backward"}, ", in the backward pass"),
        ({"phase": "user", "phase_name": "checkpoint"}, ", in the phase 'checkpoint'"),
        ({"phase": "of a newer agent"}, ""),
    ],
)
def test_when_and_where_it_died(facts: dict[str, Any], where: str) -> None:
    open_span = span(0, T0, **facts, step=118, epoch=2, alive=False)
    verdict = _verdict(spans=[open_span])
    said = f"The training process (pid 1000) crashed at {CLOCK} in step 118 of epoch 2{where}."
    assert verdict["title"] == said
    assert verdict["severity"] == "critical"
    assert "dmesg" in verdict["advice"]
    assert "50 GB of the host's 64 GB were free, it held 3.0 GB itself" in verdict["advice"]


def test_its_last_words_and_its_rank_are_named() -> None:
    verdict = _verdict(spans=[], world=4, exit="Traceback …\nRuntimeError: " + "x" * 500)
    assert verdict["title"].startswith("Rank 0 (pid 1000) crashed (RuntimeError: xxx")
    assert verdict["title"].endswith(f"…) at {CLOCK}.")
    assert len(verdict["title"]) < 260


def test_short_memory_and_a_worker_that_died_are_said_first() -> None:
    spans = [
        span(0, T0, phase="wait", alive=False),
        span(0, T0, worker=0, phase="idle"),
        span(0, T0, worker=1, phase="fetch", alive=False),
    ]
    advice = _verdict(spans=spans, free=1e9)["advice"]
    assert advice.startswith("Worker 1 (pid 1020) died before it")
    assert "Memory was short: 1.0 GB of the host's 64 GB were free" in advice
    ended_together = [spans[0], spans[2]]
    assert "died before it" not in _verdict(spans=ended_together)["advice"]


def test_a_detector_that_knows_why_has_the_word() -> None:
    builder = WindowBuilder("run-1")
    builder.add(Feed().envelope(state="crashed", final=True))
    known = Finding(
        key="crashed:0", code="crashed", scenario="S39", severity="critical", confidence=0.9, began_ns=T0,
        title="Training died of too little shared memory", cause="c", advice="Use --shm-size.",
    )  # fmt: skip
    verdict = crash_verdict(builder.window(), [Alert("run-1.1", known, "resolved", T0, T0)])
    assert (verdict["title"], verdict["finding_id"]) == (known.title, "run-1.1")


def test_nothing_known_is_still_a_sentence() -> None:
    assert crash_verdict(WindowBuilder("run-1").window(), [])["title"] == "A training process crashed."


@pytest.mark.parametrize(("closed_after_s", "hung_to_the_end"), [(None, True), (32, True), (-20, False)])
def test_a_run_that_hung_until_it_died_is_told_as_a_hang(
    closed_after_s: int | None, hung_to_the_end: bool
) -> None:
    builder = WindowBuilder("run-1")
    stuck = span(0, T0, phase="wait", alive=False)
    builder.add(envelope(31, processes=[process(0, 1, state="crashed")], spans=[stuck]))
    window = builder.window()
    closed = None if closed_after_s is None else T0 + closed_after_s * SECOND
    hang = Finding(
        key="hung:rank0",
        code="hung",
        scenario="S36",
        severity="critical",
        confidence=0.9,
        began_ns=T0,
        title="Training hangs: worker 2 has been stuck for 20 s in dataset[137].",
        cause="",
        advice="Give every read a timeout.",
    )
    alert = Alert("run-1.1", hang, "firing" if closed is None else "resolved", T0 - 60 * SECOND, T0, closed)
    verdict = crash_verdict(window, [alert])
    assert verdict["title"].startswith(hang.title) is hung_to_the_end
    assert (verdict["finding_id"] == "run-1.1") is hung_to_the_end
    if hung_to_the_end:
        assert "The training process (pid 1000) ended at" in verdict["title"]
        assert verdict["advice"] == hang.advice
