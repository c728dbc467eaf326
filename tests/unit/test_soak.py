"""The soak's players and its verdict: a missing or doubled row, growth and a slower page must show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import players
from benchmarks.meter import Process
from benchmarks.probe import Probe
from benchmarks.soak import Measured, Sample, judge
from loaderwatch.core.records import KIND_TABLE, RECORD_FIELDS
from loaderwatch.core.ring import RingReader


@pytest.mark.parametrize("rank", [0, 7])
def test_what_a_player_writes_is_what_the_ledger_expects(tmp_path: Path, rank: int) -> None:
    player = players.Player(tmp_path, rank, world_size=8)
    count = players.epoch_length(rank) + 40
    found: dict[str, list[tuple[int, ...]]] = {table: [] for table in players.STORED}
    try:
        for _ in range(count):
            player.step()
    finally:
        player.end()
    for path in sorted(tmp_path.glob("*.ring")):
        ring = RingReader(path)
        drained = ring.drain(0, final=True)
        assert drained.lost == 0
        assert ring.status().finished
        for kind, rows in drained.records.items():
            table = KIND_TABLE[kind]
            at = [RECORD_FIELDS[kind].index(name) for name in players.STORED[table]]
            found[table] += [tuple(row[i] for i in at) for row in rows]
        ring.close()
    for table, wanted in players.expected(rank, count).items():
        assert sorted(found[table]) == sorted(map(tuple, wanted.tolist())), table
    assert len(found["epoch_begins"]) == 2
    assert len(list(tmp_path.glob("worker-*.ring"))) == 4


def test_a_probe_ages_each_step_once(tmp_path: Path) -> None:
    player = players.Player(tmp_path, 0, world_size=1)
    try:
        for _ in range(5):
            player.step()
        info = players.describe(player.pid, 0, 1)
        probe = Probe(tmp_path, info)
        probe.read()
        ended_s = player.asked_ns / 1e9
        assert len(probe.shown(3, ended_s)) == 3
        assert probe.shown(5, ended_s)[-1] == pytest.approx(0.0, abs=1e-6)
        assert len(probe.acknowledged(1_000, ended_s)) == 5
    finally:
        player.end()


def test_growth_and_slowness_are_over_budget() -> None:
    def measured(server_mb: float, page_s: float) -> dict[str, bool]:
        samples, shown = [], []
        for number in range(1, 401):
            late = number > 300
            streamer = Process(35_000_000, 0, 0.05, 700, 3)
            server = Process(int(1e6 * (server_mb if late else 200)), 0, 0.2, 13, 17)
            samples.append(Sample(number * 9.0, streamer, server, 0, number, number))
            shown += [
                (number * 9.0, (page_s if late else 0.8) * factor) for factor in np.linspace(0.1, 1, 20)
            ]
        rows = judge(Measured(samples=samples, shown=shown, acknowledged=shown, queries=shown))
        return {row.name: row.over for row in rows}

    assert not any(measured(215, 1.2).values())
    assert measured(230, 0.8)["server memory"]
    assert measured(200, 1.9)["step to page's event p95"]
