"""One truth: every place says the same data wait, for runs that are made up at random, by either clock."""

from __future__ import annotations

import json
import random
import re
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

from loaderwatch.cli import main
from loaderwatch.core.facts import SpanInfo
from loaderwatch.core.records import pack_row
from loaderwatch.core.wire import Envelope, pack_table
from loaderwatch.texts.formats import percent
from tests.fakes.feed import SECOND, Feed
from tests.fakes.serving import Access, serving, wait_until

LENGTH_S = 24.0
"""Shorter than any interval of the page, so that all of them are the whole run."""
CLOSE = 0.01
"""What a bucket or the last moment may add."""


class Made:
    """A run whose ranks wait and work equally long in each iteration, with all device events or none."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.ranks = chance.choice((1, 1, 2, 4))
        self.device = bool(seed % 2)
        iteration_s = chance.uniform(0.05, 0.5)
        self.began_ns = time.time_ns() - int(LENGTH_S * SECOND)
        self.iteration_ns = int(iteration_s * SECOND)
        self.wait_ns = [int(chance.uniform(0.35, 0.9) * self.iteration_ns) for _ in range(self.ranks)]
        self.starved_ns = [int(chance.uniform(0.35, 1.0) * wait_ns) for wait_ns in self.wait_ns]
        self.sent = [0] * self.ranks
        self.feeds = [Feed(host=f"gpu{rank}", rank=rank, world_size=self.ranks) for rank in range(self.ranks)]

    @property
    def shares(self) -> list[float]:
        """Of each rank, what it loses."""
        lost_ns = self.starved_ns if self.device else self.wait_ns
        return [ns / self.iteration_ns for ns in lost_ns]

    @property
    def lasted_s(self) -> float:
        """How long the iterations took that were sent."""
        return min(self.sent) * self.iteration_ns / SECOND

    def envelope(self, rank: int, now_ns: int) -> Envelope:
        """A rank's rows since its last envelope, up to ``now_ns``. Ranks in step share that moment."""
        done = (now_ns - self.began_ns) // self.iteration_ns
        steps, waits = [], []
        for number in range(self.sent[rank], done):
            began_ns = self.began_ns + number * self.iteration_ns
            at = {
                "rank": rank,
                "loader": 0,
                "epoch": 0,
                "batch": number,
                "request_ns": began_ns,
            }
            steps.append(
                pack_row(
                    "steps",
                    {
                        **at, "step": number + 1, "wait_ns": self.wait_ns[rank], "wait_cpu_ns": 0, "ready": 0,
                        "cached": 0, "awaited_worker": 0, "step_ns": self.iteration_ns - self.wait_ns[rank],
                        "nested_ns": 0, "off_main_thread": 0, "optimizer_steps": 1,
                    },
                )
            )  # fmt: skip
            worked_ns = self.iteration_ns - self.starved_ns[rank]
            waits.append(
                pack_row("gpu_waits", {**at, "starved_ns": self.starved_ns[rank], "gpu_step_ns": worked_ns})
            )
        tables = {"steps": pack_table("steps", steps)}
        if self.device:
            tables["gpu_waits"] = pack_table("gpu_waits", waits)
        self.sent[rank] = done
        span = SpanInfo(
            rank=rank, worker=-1, pid=4000 + rank, phase="step", since_ns=now_ns, loader=0, epoch=0,
            batch=done, step=done, batches=done, steps=done,
        )  # fmt: skip
        # Made at that moment: rows take a while to pack, and what passes then would be a step that goes on.
        return self.feeds[rank].envelope(steps=0, tables=tables, spans=[span], made_ns=now_ns)


def mean(series: dict[str, Any]) -> float:
    """The share over all buckets but the first and the last, which are not full."""
    known = [value for value in series["mean"] if value is not None][1:-1]
    return float(sum(known) / len(known))


def metrics(access: Access) -> dict[int, float]:
    with access.client() as client:
        text = client.get("/metrics").text
    found = re.findall(r'^loaderwatch_data_wait_ratio{.*rank="(\d)"} (\S+)$', text, re.MULTILINE)
    return {int(rank): float(value) for rank, value in found}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_every_place_says_the_same_data_wait(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Made(seed)
    shares, worst = made.shares, max(made.shares)
    with serving(tmp_path) as access:

        def told() -> list[dict[str, Any]]:
            now_ns = time.time_ns()
            for rank in range(made.ranks):
                access.send(made.envelope(rank, now_ns))
            return [
                one
                for one in access.get("/runs/run-1/findings")
                if one["code"] == "input-bound" and whole(one)
            ]

        def whole(finding: dict[str, Any]) -> bool:
            """Not of a moment at which the envelopes of some ranks had come, and those of others had not."""
            return finding["scenario"] == "S43" or f"{percent(worst)} of" in finding["title"]

        wait_until("the stall is told", told, pause_s=0.3)
        summary = access.get("/runs/run-1/summary")
        (finding, *_) = [one for one in access.get("/runs/run-1/findings") if one["code"] == "input-bound"]
        for rank, share in enumerate(shares):
            assert summary["ranks"][rank]["data_wait_ratio"] == pytest.approx(share, abs=CLOSE)
            assert summary["ranks"][rank]["clock"] == ("device" if made.device else "loop")
            assert metrics(access)[rank] == pytest.approx(share, abs=CLOSE)
            series = access.get("/runs/run-1/series", metric="data_wait_ratio", rank=rank)
            assert mean(series) == pytest.approx(share, abs=CLOSE)
            duty = access.get("/runs/run-1/series", metric="compute_duty_ratio", rank=rank)
            assert mean(duty) == pytest.approx(1 - share, abs=CLOSE)
        heat = access.get("/runs/run-1/heatmap", metric="data_wait_ratio")
        for rank, row in zip(heat["ranks"], heat["values"], strict=True):
            assert mean({"mean": row}) == pytest.approx(shares[rank], abs=CLOSE)
        assert summary["data_wait_ratio"] == pytest.approx(
            worst, abs=CLOSE
        )  # ranks that go in step wait for the worst
        assert summary["compute_duty_ratio"] == pytest.approx(1 - summary["data_wait_ratio"])
        if finding["scenario"] != "S43":  # a straggler's title says for how long others wait
            assert f"{percent(worst)} of" in finding["title"]
        assert finding["gain_ceiling_ratio"] <= worst + CLOSE
        assert f"{summary['lost_s']:.1f}" == f"{max(summary['lost_s'], finding['lost_s']):.1f}"
        assert summary["lost_s"] == pytest.approx(worst * made.lasted_s, rel=0.05)
    (file,) = tmp_path.rglob("run-1.duckdb")
    with duckdb.connect(str(file), read_only=True) as people:
        of = "starved_ns, gpu_step_ns FROM gpu_waits" if made.device else "wait_ns, step_ns FROM steps"
        for rank, share in enumerate(shares):
            lost, rest = people.execute(f"SELECT {of} WHERE counted = 1 AND rank = {rank}").fetchall()[0]
            assert lost / (lost + rest) == pytest.approx(share)
    assert main(["analyze", "run-1", "--data-dir", str(tmp_path), "--json"]) in (0, 1)
    again = [one for one in json.loads(capsys.readouterr().out) if one["code"] == "input-bound"]
    assert [one["title"] for one in again] == [finding["title"]]
