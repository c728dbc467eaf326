"""Rows of the heat map: by rank or host, worst first, found."""

from __future__ import annotations

import numpy as np

from loaderwatch.server.queries.heatmap import LOW_IS_BAD, Rows, shaped
from loaderwatch.server.store.metrics import METRICS
from loaderwatch.server.store.protocol import Grid

RANKS = 1024
HOSTS = {rank: f"gpu{rank // 8:03d}" for rank in range(RANKS)}
STRAGGLER = 517


def grid(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Grid:
    return Grid(10**9, np.arange(values.shape[1]) * 10**9, np.arange(len(values)), values)


def straggling() -> Grid:
    values = np.full((RANKS, 30), 0.02)
    values[STRAGGLER] = 0.65
    return grid(values)


def test_one_straggler_of_a_thousand_is_the_first_row() -> None:
    found = shaped(straggling(), "data_wait_ratio", HOSTS, Rows(by="host", order="worst", limit=64))
    assert (found.hosts[0], found.ranks[0], found.values[0][0]) == ("gpu064", STRAGGLER, 0.65)
    assert (len(found.values), found.of) == (64, 128)
    assert found.values[1][0] == 0.02


def test_a_row_of_a_host_is_the_worst_of_its_ranks_at_each_time() -> None:
    values = np.full((4, 3), np.nan)
    values[0, 0], values[1, 1], values[3, 2] = 0.1, 0.5, 0.9
    hosts = {0: "a", 1: "a", 2: "b", 3: "b"}
    found = shaped(grid(values), "data_wait_ratio", hosts, Rows(by="host"))
    assert found.values == [[0.1, 0.5, None], [None, None, 0.9]]
    assert (found.hosts, found.ranks) == (["a", "b"], [1, 3])
    slow = shaped(grid(values + 1), "steps_per_s", hosts, Rows(by="host", order="worst"))
    assert (slow.hosts, slow.ranks) == (["a", "b"], [0, 3])


def test_by_rank_nothing_changes_unless_it_is_asked_for() -> None:
    found = shaped(straggling(), "data_wait_ratio", HOSTS, Rows())
    assert found.ranks == list(range(RANKS))
    assert found.of == RANKS


def test_rows_are_found_by_rank_and_host() -> None:
    by_rank = shaped(straggling(), "data_wait_ratio", HOSTS, Rows(find="rank 7"))
    assert (by_rank.ranks, by_rank.hosts, by_rank.of) == ([7], ["gpu000"], 1)
    by_host = shaped(straggling(), "data_wait_ratio", HOSTS, Rows(by="host", find="517"))
    assert by_host.hosts == ["gpu064"]
    none = shaped(straggling(), "data_wait_ratio", HOSTS, Rows(find="nothing"))
    assert (none.ranks, none.values, none.of) == ([], [], 0)


def test_digits_make_it_short() -> None:
    values = np.array([[1 / 3, 12345.678, np.nan, 0.0, -0.00012345]])
    found = shaped(grid(values), "wait_s", {0: "a"}, Rows(), digits=3)
    assert found.values == [[0.333, 12300.0, None, 0.0, -0.000123]]


def test_metrics_of_which_low_is_bad_exist() -> None:
    assert set(METRICS) >= LOW_IS_BAD
