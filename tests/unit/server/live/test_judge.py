"""One judge: a live run and its recording get the same verdict."""

from __future__ import annotations

import time
from typing import Any

from loaderwatch.core.wire import Envelope, encode
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.incidents.verdict import verdict_of
from loaderwatch.server.live.judge import Judge, stands
from loaderwatch.server.recordings.analysis import judge_recording
from loaderwatch.server.recordings.recording import Recording
from loaderwatch.server.window.builder import WindowBuilder
from tests.fakes.runs import SECOND, T0, envelope, process, span, steps


def killed(seconds: int = 20) -> list[Envelope]:
    """A rank that is healthy until the kernel kills it, an envelope a second."""
    made = []
    for seq in range(1, seconds + 1):
        now = T0 + seq * SECOND
        dead: dict[str, Any] = {"state": "crashed", "exit_code": -9} if seq == seconds else {}
        times = [now - SECOND + index * SECOND // 5 for index in range(5)]
        rows = steps(
            0, times, SECOND // 100, SECOND * 19 // 100, batch=[5 * seq + index for index in range(5)]
        )
        made.append(
            envelope(
                seq,
                made_ns=now,
                processes=[process(0, 1, **dead)],
                tables={"steps": rows},
                spans=[span(0, now - 5, phase="backward", loader=0, step=5 * seq, alive=not dead)],
            )
        )
    return made


def test_a_death_that_nobody_explains_is_told_live_and_of_the_recording() -> None:
    judge, builder = Judge("run-1"), WindowBuilder("run-1")
    told = []
    for made in killed():
        builder.add(made)
        window = builder.window()
        judge.begin(window, time.time_ns())
        told += judge.judge(window, detect(RunEvidence(window)), time.time_ns())
    (announced,) = told
    assert (announced.alert.finding.code, announced.resolved) == ("crashed", False)
    judge.close(window.now_ns, time.time_ns())
    live = judge.alerts(window)

    recorded = Recording(run_id="run-1", run_name="train.py", envelopes=[encode(each) for each in killed()])
    found, said = judge_recording(recorded)
    assert [(each.id, each.title, each.severity) for each in found] == [
        (alert.id, alert.finding.title, alert.finding.severity) for alert in live
    ]
    assert said == verdict_of("crashed", lambda: RunEvidence(window), live)
    assert said.title == announced.alert.finding.title
    assert "in the backward pass" in said.title


def test_a_rank_stands_that_lives_and_is_in_one_phase_for_seconds() -> None:
    made_ns = T0 + 20 * SECOND

    def of(since_s: float, **more: Any) -> bool:
        builder = WindowBuilder("run-1")
        spans = [span(0, made_ns - SECOND // 10), span(1, made_ns - int(since_s * SECOND))]
        ended = [process(0, 2), process(1, 2, **more)]
        builder.add(envelope(1, made_ns=made_ns, processes=ended, spans=spans))
        return stands(builder.window())

    assert not of(0.5)
    assert of(4.0)
    assert not of(4.0, state="crashed")
