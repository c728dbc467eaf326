"""One truth: tiles, verdict, bars and the detectors' shares agree on randomly generated runs."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.measures.critical_path import RunUse
from loaderwatch.detect.measures.time_use import RECENT_S, wait_share
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.live.summary import summary_of
from loaderwatch.server.queries.live_answers import coupling_of
from loaderwatch.server.window.builder import WindowBuilder
from loaderwatch.server.window.totals import RunTotals
from loaderwatch.texts.formats import percent
from tests.fakes.runs import envelope
from tests.unit.detect.build import RankBuilder, S, loader, run, verdict_now

NO_TOTALS = RunTotals({}, {}, {}, {}, {}, {}, 0)
CLOSE = 0.03
"""What the iteration under way as the interval begins may add, and the collectives' own time."""
EXCHANGE_S = 0.001


@dataclass
class Made:
    """A run of ranks in step, built together with what is true of its last half minute."""

    ranks: list[RankBuilder]
    lost_s: float = 0.0  # along the critical path
    worked_s: float = 0.0
    aside_s: float = 0.0  # in evaluation
    about: str = ""

    @property
    def window(self) -> RunWindow:
        return run(*self.ranks)

    @property
    def share(self) -> float:
        return self.lost_s / (self.lost_s + self.worked_s)


@st.composite
def runs(draw: st.DrawFn) -> Made:
    """One to four ranks: varying waits and steps, one late rank or in turns, evaluation, and an open span."""
    world = draw(st.sampled_from((1, 2, 4)))
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    device, turns, evaluates = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    told = draw(st.sampled_from((1.0, 0.8))) if device else 0.0  # of how many batches events tell
    mean_s, most = draw(st.floats(0.05, 0.3)), draw(st.floats(0.0, 0.85))
    last = draw(st.sampled_from(("nothing", "wait", "step")))
    open_s = draw(st.floats(0.5, 8.0)) if last != "nothing" else 0.0
    loaders = [loader(), loader(loader=1, name="val_loader", role="eval")]
    made = Made([RankBuilder(number, world, loaders=loaders) for number in range(world)])
    number, elapsed_s = 0, 0.0
    while elapsed_s < RECENT_S - open_s:
        iteration_s = mean_s * chance.uniform(0.7, 1.3)
        late = number % world if turns else 0
        starved_s = most * iteration_s * chance.uniform(0.5, 1.0)
        hidden_s = min(0.5 * starved_s, 0.1 * iteration_s) if device else 0.0
        for rank in made.ranks:
            lost_s = starved_s if rank.rank == late else 0.02 * starved_s
            began_ns, wait_s = rank.now_ns, lost_s + (hidden_s if rank.rank == late else 0.0)
            waits_s = starved_s - lost_s
            rank.step(
                wait_s,
                iteration_s - wait_s,
                optimizer_steps=1,
                collective_ns=int((EXCHANGE_S + waits_s) * S),
            )
            if chance.random() < told or number < 2:
                rank.add(
                    "gpu_waits",
                    loader=0,
                    epoch=0,
                    batch=number,
                    request_ns=began_ns,
                    starved_ns=int(lost_s * S),
                    gpu_step_ns=int((iteration_s - lost_s) * S),
                )
        made.lost_s += starved_s
        made.worked_s += iteration_s - starved_s
        elapsed_s += iteration_s
        number += 1
    made.about = f"{world} ranks, {device=} {turns=} {evaluates=} {told=} {last=} {most=} {mean_s=} {open_s=}"
    if evaluates:
        made.aside_s = 5 * 0.4
        for rank in made.ranks:
            for _ in range(5):
                rank.step(0.3, 0.1, loader=1)
            rank.steps = number
    for rank in made.ranks:
        rank.now_ns += int(0.001 * S)
        rank.has_model = True
        if last == "wait":
            rank.open("wait" if rank.rank == 0 else "backward", open_s)
        elif last == "step":
            rank.open("backward", open_s)
    made.lost_s += open_s if last == "wait" else 0.0
    made.worked_s += open_s if last == "step" else 0.0
    return made


def measured(window: RunWindow) -> RunUse:
    use = RunEvidence(window).use
    assert use.wait_ratio is not None
    assert use.goodput_ratio is not None
    return use


@settings(max_examples=60, deadline=None)
@given(made=runs())
def test_every_place_says_the_same_and_it_is_true(made: Made) -> None:
    window = made.window
    use, summary = measured(window), summary_of(RunEvidence(window), NO_TOTALS, state="live")
    share = use.wait_ratio or 0.0
    assert share == pytest.approx(made.share, abs=CLOSE)
    # The tiles.
    assert summary.data_wait_ratio == share
    assert summary.compute_duty_ratio == 1 - share
    assert summary.goodput_ratio == use.goodput_ratio
    assert summary.gpu_starved_ratio == (share if use.clock == "device" else None)
    assert summary.steps_per_s == use.steps_per_s
    for row in summary.ranks:
        assert row.data_wait_ratio == use.ranks[row.rank].wait_ratio
        assert (row.data_wait_ratio or 0.0) <= share
        # What detectors look at first.
        assert wait_share(window.ranks[row.rank], Limits()) == pytest.approx(row.data_wait_ratio, abs=CLOSE)
    # Where nothing but steps and waits was, what is not lost is good.
    assert 0.0 <= (use.goodput_ratio or 0.0) <= 1 - share + CLOSE
    # The bars.
    for bar in coupling_of(RunEvidence(window, Limits())).ranks:
        assert bar.data_s / bar.iteration_s == pytest.approx(use.ranks[bar.rank].wait_ratio, abs=CLOSE)
    # The verdict.
    said = verdict_now(window, [])
    assert said == summary.verdict
    in_loops_s = sum(of.wait_s + of.step_s for of in use.ranks.values())
    covered_s = sum(of.covered_s for of in use.ranks.values())
    elapsed_share = share * min(1.0, in_loops_s / covered_s) if covered_s else share
    if elapsed_share >= Limits().input_warning_ratio:
        assert said.severity != "ok"
    told = re.search(r"data wait t(?:akes|ook) (.*?) of each iteration", said.title, re.IGNORECASE)
    assert told is None or told[1] == percent(share)
    speed = re.search(r"; ([\d.]+) steps/s", said.title)
    assert speed is None or float(speed[1]) == pytest.approx(use.steps_per_s, abs=0.05)


@settings(max_examples=30, deadline=None)
@given(made=runs())
def test_goodput_is_the_share_of_the_time_in_which_nobody_waits(made: Made) -> None:
    window = made.window
    expected = (1 - made.share) * (RECENT_S - made.aside_s) / RECENT_S
    assert measured(window).goodput_ratio == pytest.approx(expected, abs=2 * CLOSE)


def followed(window: RunWindow) -> WindowBuilder:
    """A server to which each rank sent all that it did."""
    builder = WindowBuilder(window.run_id)
    for number, rank in window.ranks.items():
        tables = {
            name: {column: values.tobytes() for column, values in rank.table(name).items()}
            for name in ("steps", "gpu_waits")
            if rank.table(name)["request_ns"].size
        }
        processes = [one.process for one in window.ranks.values()]
        spans = [rank.span] if rank.span is not None else []
        builder.add(
            envelope(
                1, stream=str(number), host=f"h{number}", made_ns=rank.made_ns, processes=processes,
                tables=tables, spans=spans
            )
        )  # fmt: skip
    return builder


@settings(max_examples=30, deadline=None)
@given(made=runs())
def test_the_time_lost_is_what_was_lost_along_the_critical_path(made: Made) -> None:
    """Whichever rank was late: also where ranks are late in turns, by either clock, with an open wait."""
    builder = followed(made.window)
    found = summary_of(RunEvidence(builder.window()), builder.totals(), state="live")
    assert found.lost_s == pytest.approx(made.lost_s, rel=0.15, abs=0.1), made.about
