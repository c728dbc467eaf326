"""The events beside charts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loaderwatch.core.answers import Finding, Mark
from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.records import pack_row
from loaderwatch.core.wire import pack_table
from loaderwatch.server.queries.marks import marks_of
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.protocol import Store
from tests.fakes.runs import SECOND, T0, envelope, process, table

START = T0 / 1e9


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = DuckDBStore(tmp_path)
    yield opened
    opened.close()


def _loader(number: int = 0, **more: Any) -> LoaderInfo:
    name = f"train_loader-{number}" if number else "train_loader"
    facts: dict[str, Any] = {"loader": number, "name": name, "role": "train", "class_name": "DataLoader"}
    return LoaderInfo(**(facts | {"num_workers": 2, "batch_size": 8} | more))


def _phases(*rows: tuple[int, int, int]) -> dict[str, bytes]:
    """Phases of rank 0: index of the name, begin and duration in seconds."""
    return pack_table(
        "phases",
        [
            pack_row(
                "phases",
                {"rank": 0, "name": name, "request_ns": T0 + at * SECOND, "duration_ns": took * SECOND},
            )
            for name, at, took in rows
        ],
    )


def _told(marks: list[Mark]) -> list[tuple[str, float, float | None, list[int], str]]:
    return [
        (
            mark.kind,
            round(mark.began_at - START, 3),
            None if mark.ended_at is None else round(mark.ended_at - START, 3),
            mark.ranks,
            mark.text,
        )
        for mark in marks
    ]


def test_other_settings_of_a_loader_are_a_mark_and_its_twin_is_none(store: Store) -> None:
    twin = _loader(1, batch_size=32)  # there from the beginning: another loader, not a changed one
    made = [_loader(), twin]
    store.append([envelope(1, processes=[process(0, loaders=made)])])
    anew = _loader(2, num_workers=6, batch_size=32)
    store.append([envelope(60, processes=[process(0, loaders=[*made, anew])])])
    assert _told(marks_of(store, "run-1", [])) == [
        ("config", 60, None, [0], "train_loader: num_workers 2 → 6")
    ]


def test_what_autotune_and_cached_batches_change_is_a_mark(store: Store) -> None:
    tuned = _loader(num_workers=4, autotuned="before epoch 1: num_workers 2 → 4")
    by_hand = _loader(num_workers=5, autotuned=tuned.autotuned)
    replayed = _loader(num_workers=5, autotuned=tuned.autotuned, cached_batches=20)
    for seq, loader in enumerate((_loader(), tuned, by_hand, replayed)):
        store.append([envelope(1 + 60 * seq, processes=[process(0, loaders=[loader])])])
    assert [mark.text for mark in marks_of(store, "run-1", [])] == [
        "train_loader: autotune, num_workers 2 → 4",
        "train_loader: num_workers 4 → 5",
        "train_loader: cached_batches 0 → 20",
    ]


def test_ranks_that_change_alike_are_one_mark(store: Store) -> None:
    for seq, workers in ((1, 2), (60, 4)):
        ranks = [process(rank, 2, loaders=[_loader(num_workers=workers)]) for rank in (0, 1)]
        store.append([envelope(seq, processes=ranks)])
    assert _told(marks_of(store, "run-1", [])) == [
        ("config", 60, None, [0, 1], "train_loader: num_workers 2 → 4")
    ]
    assert [mark.ranks for mark in marks_of(store, "run-1", [], rank=1)] == [[1]]


def test_checkpoints_and_evaluation_are_found_by_the_names_of_phases(store: Store) -> None:
    names = ["logging", "checkpoint", "validation"]
    rows = _phases((0, 1, 1), (1, 10, 2), (2, 20, 5), (2, 40, 5))
    told = envelope(50, processes=[process(0, phase_names=names)], tables={"phases": rows})
    store.append([told])
    assert _told(marks_of(store, "run-1", [])) == [
        ("checkpoint", 10, 12, [0], "checkpoint"),
        ("evaluation", 20, 25, [0], "validation"),
        ("evaluation", 40, 45, [0], "validation"),
    ]
    inside = marks_of(store, "run-1", [], start=START + 11, end=START + 21)
    assert [mark.kind for mark in inside] == ["checkpoint", "evaluation"]
    assert [mark.kind for mark in marks_of(store, "run-1", [], limit=1)] == ["evaluation"]
    assert marks_of(store, "run-1", [], rank=1) == []


def test_the_loader_that_is_read_in_an_evaluation_is_the_same_mark(store: Store) -> None:
    phases = _phases((0, 10, 5))
    begins = table(
        "epoch_begins", rank=[0, 0], loader=1, epoch=[0, 1], request_ns=[T0 + 11 * SECOND, T0 + 30 * SECOND]
    )
    ends = table(
        "epoch_ends", rank=[0], loader=1, epoch=0, request_ns=T0 + 14 * SECOND, teardown_ns=2 * SECOND
    )
    told = {"phases": phases, "epoch_begins": begins, "epoch_ends": ends}
    store.append([envelope(40, processes=[process(0, phase_names=["evaluation"])], tables=told)])
    assert _told(marks_of(store, "run-1", [])) == [
        ("evaluation", 10, 16, [0], "evaluation"),
        ("evaluation", 30, None, [0], "val_loader"),
    ]


def test_a_restart_and_alerts_are_marks_and_remarks_are_none(store: Store) -> None:
    store.append([envelope(1)])
    again = process(0, pid=2000, started_ns=T0 + 30 * SECOND)
    store.append([envelope(31, stream="second", processes=[again])])
    finding = Finding(
        id="run-1-1", key="k", code="hung", scenario="S1", severity="critical", state="firing",
        confidence=1.0,
        rank=3, host=None, worker=None, pid=None, sample_indices=[], began_at=START + 40, ended_at=None,
        title="Rank 3 stands", cause="", advice="", evidence=[], lost_s=None, gain_ceiling_ratio=None,
        stacks=[], silenced_until=None,
    )  # fmt: skip
    remark = msgspec.structs.replace(finding, id="run-1-2", severity="info")
    found = marks_of(store, "run-1", [finding, remark])
    assert _told(found) == [
        ("attempt", 30, None, [], "attempt 2 begins"),
        ("alert", 40, None, [3], "Rank 3 stands"),
    ]
    assert found[1].finding_id == "run-1-1"
    assert [mark.kind for mark in marks_of(store, "run-1", [finding], rank=0)] == ["attempt"]
