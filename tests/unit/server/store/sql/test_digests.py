"""What is kept of a bucket beside its sums, for large runs in parts. Values: ``test_store_conformance``."""

from pathlib import Path

import duckdb
import pytest

from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.metrics import LEVELS
from loaderwatch.server.store.sql import digests
from tests.fakes import minutes_apart


@pytest.mark.parametrize(("at_once", "selects"), [(1, 3), (2, 2), (3, 1)])
def test_ranks_are_sorted_a_few_at_a_time_and_each_is_kept(
    at_once: int, selects: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(digests, "SORTED_RANKS", at_once)
    minute = LEVELS[1].ns
    (kept,) = digests.of_buckets(1, "fetches", 0, 2 * minute, minutes_apart.RANKS)
    assert (kept.table, len(kept.selects)) == ("r60_slow_fetches", 2 * selects)
    store = DuckDBStore(tmp_path)
    store.append(minutes_apart.envelopes(7))
    with store._files.open(minutes_apart.RUN) as run:
        while run.roll():
            pass
    for rank in (None, 0, 1, 2):
        found = [
            (row["slow_index"], row["slow_ns"]) for row in store.slow_samples(minutes_apart.RUN, rank, 20)
        ]
        assert found == minutes_apart.slowest(store, rank, 20)
    store.close()


@pytest.mark.parametrize("ranks", [0, 1, 512, 513, 1024, 1025, 10_240])
def test_each_row_is_in_one_part_whatever_its_rank(ranks: int) -> None:
    conditions = digests._some_ranks(ranks)
    assert len(conditions) == max(1, -(-ranks // digests.SORTED_RANKS))
    counted = " + ".join(f"coalesce(({condition})::INT, 0)" for condition in conditions)
    values = ", ".join(f"({rank})" for rank in ("NULL", -7, 0, 511, 512, 513, 1023, 1024, 10_239, 99_999))
    found = duckdb.execute(f"SELECT rank, {counted} FROM (VALUES {values}) ranks(rank)").fetchall()
    assert {times for _, times in found} == {1}
