"""S22 and N43: requests that run into a time limit, and a source that goes by its own clock."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loaderwatch.core.facts import LOCK_WAIT
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from tests.unit.detect import stacks
from tests.unit.detect.build import RankBuilder, loader, run
from tests.unit.detect.workers import alerts, only, watch


class TestTimeLimits:
    """S22: some fetches are as long as a time limit."""

    def rank(
        self, *, spread: float = 0.02, each: int = 3, twice: int = 1, wchan: str = "do_epoll_wait"
    ) -> RankBuilder:
        """One round in ``each`` takes 1.6 s or more, the others 20 ms. Workers are sampled in the wait."""
        rank, random = RankBuilder(), np.random.default_rng(3)
        for number in range(120):
            took = 0.02
            if number % each == 0:
                took = 1.6 * random.integers(1, twice + 1) * random.uniform(1 - spread, 1 + spread)
            for worker in (0, 1):
                rank.fetch(worker, took, cpu=0.02)
            rank.step(max(0.0005, took - 0.01), 0.005)
            rank.step(0.0004, 0.005, ready=1)
        watch(rank, 2, cpu=0.02)
        pid = next(row["pid"] for row in rank.rows["processes"] if row["worker"] == 1)
        return rank.stack(1, int(pid), stacks.WORKER, why=LOCK_WAIT, wchan=wchan)

    def test_requests_that_are_tried_again(self) -> None:
        finding = only(run(self.rank()))
        assert finding.scenario == "S22"
        assert "31 % of the fetches take almost exactly 1.6 s, the others 20 ms" in finding.title
        assert "data.py:42 in load_image" in finding.cause
        assert "More workers only wait in parallel" in finding.advice
        assert len(finding.stacks) == 1

    def test_several_requests_of_a_fetch_run_into_the_limit(self) -> None:
        finding = only(run(self.rank(twice=2)))
        assert finding.scenario == "S22"
        assert "of the fetches take 1.6 s or a multiple of it, the others 20 ms" in finding.title

    @pytest.mark.parametrize(
        "fields",
        [{"spread": 0.4}, {"each": 1}, {"wchan": "hrtimer_nanosleep"}, {"wchan": "futex_wait_queue"}],
    )
    def test_others_are_none(self, fields: dict[str, Any]) -> None:
        assert {finding.scenario for finding in detect(RunEvidence(run(self.rank(**fields))))} & {
            "S22"
        } == set()


class TestLiveSource:
    """N43: a stream that goes by its source's clock."""

    def rank(
        self,
        *,
        jitter_s: float = 0.001,
        drifts_s: float = 0.0,
        iterable: bool = True,
        asked: float = 1.0,
        cpu: float = 0.01,
    ) -> RankBuilder:
        """One batch every 160 ms for steps of 10 ms; up to ``drifts_s`` per batch is never made up for."""
        rank, random = (
            RankBuilder(loaders=[loader(num_workers=1, iterable_dataset=iterable)]),
            np.random.default_rng(5),
        )
        late_s = before_s = 0.0
        for _ in range(300):
            late_s += random.uniform(0, drifts_s)
            at_s = late_s + random.uniform(0, jitter_s)
            took, before_s = 0.16 + at_s - before_s, at_s
            rank.step(took - 0.01, 0.01)
            rank.fetch(0, took, cpu=cpu)
        return watch(rank, 1, cpu=cpu, answer_wait=asked)

    def test_it_is_a_remark(self) -> None:
        (finding,) = (one for one in detect(RunEvidence(run(self.rank()))) if one.scenario == "S08")
        assert finding.severity == "info"
        assert "its source delivers a batch every 160 ms at a fixed rate" in finding.title

    @pytest.mark.parametrize(
        "fields", [{"drifts_s": 0.01}, {"jitter_s": 0.1}, {"iterable": False}, {"asked": 0.0}, {"cpu": 0.9}]
    )
    def test_others_alert(self, fields: dict[str, Any]) -> None:
        assert alerts(run(self.rank(**fields)))

    def test_without_fetches_nothing_is_said_of_a_clock(self) -> None:
        rank = self.rank()
        rank.rows["fetches"].clear()
        found = detect(RunEvidence(run(rank)))
        assert not [finding for finding in found if "at a fixed rate" in finding.title]
