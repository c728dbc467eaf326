from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from loaderwatch.core.records import UNKNOWN, ProfilePart
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.server.queries import live_answers
from loaderwatch.server.queries.profile import profile_in, stored_profile
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.facts import UnknownAttempt
from loaderwatch.server.store.protocol import UnknownRun
from loaderwatch.server.window.replay import rebuild
from tests.fakes.profiles import GET, OWN, PICTURE, STACKS, ZIP, counts
from tests.fakes.runs import SECOND, T0, envelope, joined, process, span, steps, table

START = T0 / 1e9


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    """Two ranks; the second attempt of their run began a minute after the first."""
    opened = DuckDBStore(tmp_path)
    began = T0 + 60 * SECOND
    phases = {"forward_ns": SECOND // 40, "backward_ns": 0, "optimizer_ns": 0}
    for attempt, at in enumerate((T0, began)):
        ranks = [process(rank, 2, pid=10 * attempt + rank, started_ns=at - 5 * SECOND) for rank in (0, 1)]
        fetches = table(
            "fetches",
            rank=[0, 1],
            loader=0,
            worker=0,
            ordinal=attempt,
            request_ns=at,
            fetch_ns=2 * SECOND,
            samples=8,
        )
        rows = [
            counts([ZIP, OWN, 0], [60 + attempt, 20, 5], t_ns=at + SECOND),
            counts([PICTURE], [20], t_ns=at + 2 * SECOND, rank=1),
            counts([OWN], [3], t_ns=at + SECOND, worker=-1, loader=UNKNOWN, part=ProfilePart.STEP),
        ]
        tables = {
            "fetches": fetches,
            "profile": joined(rows),
            "steps": steps(0, at + np.arange(20) * SECOND // 10, 0, SECOND // 10, **phases),
        }
        opened.append(
            [
                envelope(
                    attempt + 1,
                    made_ns=at + 3 * SECOND,
                    processes=ranks,
                    tables=tables,
                    profile_stacks=STACKS,
                    spans=[span(0, at + 2 * SECOND)],
                )
            ]
        )
    yield opened
    opened.close()


def test_the_newest_attempt_of_all_ranks_unless_something_else_is_asked_for(store: DuckDBStore) -> None:
    found = stored_profile(store, "run-1")
    assert (found.of, found.ranks, found.samples, found.unread) == ("fetch", [0, 1], 101, 5)
    assert (found.start, found.end) == (START + 61, START + 62)
    first = found.lines[0]
    assert (first.file, first.line, first.share, first.calls) == (GET[0], 48, 81 / 101, "zipfile.__init__")
    assert first.per_sample_s == pytest.approx(0.25 * 81 / 101)
    assert first.per_batch_s == pytest.approx(2.0 * 81 / 101)
    assert [stack.samples for stack in found.stacks] == [61, 20, 20]
    assert stored_profile(store, "run-1", attempt=1).stacks[0].samples == 60
    assert stored_profile(store, "run-1", rank=1).samples == 20
    assert stored_profile(store, "run-1", rank=7).ranks == [7]
    (step,) = stored_profile(store, "run-1", "step").lines
    assert (step.share, step.per_sample_s) == (1.0, None)
    assert step.per_batch_s == pytest.approx(0.075)
    assert step.speedup == pytest.approx(4.0), "a step of 100 ms has 25 ms of the model"
    assert stored_profile(store, "run-1", "boundary").lines == []
    assert stored_profile(store, "run-1", start=START, end=START + 100).samples == 201
    assert stored_profile(store, "run-1", start=START + 61.5, end=START + 100).ranks == [1]


def test_what_cannot_be_asked_for_is_named(store: DuckDBStore) -> None:
    with pytest.raises(UnknownRun):
        stored_profile(store, "nope")
    with pytest.raises(UnknownAttempt):
        stored_profile(store, "run-1", attempt=7)
    with pytest.raises(ValueError, match=re.escape("start is -1")):
        stored_profile(store, "run-1", start=-1)
    with pytest.raises(ValueError, match="use a time after start"):
        stored_profile(store, "run-1", start=START, end=START)


def test_a_window_answers_like_the_store_of_the_same_time(store: DuckDBStore) -> None:
    run = RunEvidence(rebuild(store, "run-1").window())
    for of in ("fetch", "step", "boundary"):
        for rank in (None, 0, 1, 7):
            mine, stores = profile_in(run, of, rank), stored_profile(store, "run-1", of, rank)
            for one, other in zip(mine.lines, stores.lines, strict=True):
                assert one.per_batch_s == pytest.approx(other.per_batch_s)
                assert one.speedup == pytest.approx(other.speedup)
            rounded = [msgspec.structs.replace(line, per_batch_s=None, speedup=None) for line in stores.lines]
            lines = [msgspec.structs.replace(line, per_batch_s=None, speedup=None) for line in mine.lines]
            assert msgspec.structs.replace(mine, lines=lines) == msgspec.structs.replace(
                stores, lines=rounded
            )


def test_a_live_run_whose_file_was_removed_answers_from_its_window(
    store: DuckDBStore, tmp_path: Path
) -> None:
    run = RunEvidence(rebuild(store, "run-1").window())
    known = {"run-1": SimpleNamespace(evidence=lambda: run), "new": SimpleNamespace(evidence=lambda: None)}
    parts: Any = SimpleNamespace(store=DuckDBStore(tmp_path / "empty"), live=known)
    assert live_answers.profile(parts, "run-1", "fetch", 1, None, None, None) == profile_in(run, "fetch", 1)
    for run_id in ("new", "nope"):
        with pytest.raises(UnknownRun):
            live_answers.profile(parts, run_id, "fetch", None, None, None, None)
    parts.store.close()
