"""Retention: which runs it deletes, and what it goes on after."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from loaderwatch.core.answers import Labels
from loaderwatch.core.clock import wall_ns
from loaderwatch.server import retention
from loaderwatch.server.retention import delete_old_runs, retain
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.protocol import StoreError, UnknownRun
from tests.fakes.runs import SECOND, envelope

AGES_H = {"old": 30, "older": 50, "recent": 0.5, "young": 0}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    """Runs that were last heard of AGES_H hours ago."""
    made = DuckDBStore(tmp_path)
    for name in AGES_H:
        made.append([envelope(1, run_id=name)])
    made.close()
    for name, age_h in AGES_H.items():
        card = tmp_path / f"{name}.json"
        facts = json.loads(card.read_bytes())
        facts["received_ns"] = wall_ns() - int(age_h * 3600) * SECOND
        card.write_text(json.dumps(facts))
    opened = DuckDBStore(tmp_path)
    yield opened
    opened.close()


def names(store: DuckDBStore) -> set[str]:
    return {run.run_id for run in store.runs()}


def test_runs_older_than_the_limit_are_deleted(store: DuckDBStore) -> None:
    assert delete_old_runs(store, 2, wall_ns()) == ["older"]
    assert delete_old_runs(store, 2, wall_ns()) == []
    assert names(store) == AGES_H.keys() - {"older"}


def test_a_run_of_the_last_hour_stays_whatever_the_limit(store: DuckDBStore) -> None:
    assert delete_old_runs(store, 0.001, wall_ns()) == ["older", "old"]
    assert names(store) == {"recent", "young"}


def test_a_pinned_run_and_another_servers_stay(store: DuckDBStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.label("older", Labels(pinned=True))
    monkeypatch.setattr(store, "owns", lambda run_id: run_id != "old")
    assert delete_old_runs(store, 1, wall_ns()) == []


def test_a_run_that_was_deleted_meanwhile_is_no_fault(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete(run_id: str) -> None:
        if run_id == "older":
            raise UnknownRun(run_id)

    monkeypatch.setattr(store, "delete", delete)
    assert delete_old_runs(store, 1, wall_ns()) == ["old"]


def test_it_looks_again_after_a_fault(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(retention, "FIRST_LOOK_S", 0.0)
    monkeypatch.setattr(retention, "LOOK_EVERY_S", 0.0)
    own = store.runs

    def runs() -> NoReturn:
        monkeypatch.setattr(store, "runs", own)
        raise StoreError("it is away")

    monkeypatch.setattr(store, "runs", runs)

    async def until_deleted() -> str:
        deleted: asyncio.Queue[str] = asyncio.Queue()
        looking = asyncio.create_task(retain(store, 2, deleted.put_nowait))
        try:
            return await deleted.get()
        finally:
            looking.cancel()

    assert asyncio.run(until_deleted()) == "older"
    assert "retention: it is away" in caplog.text


def test_without_a_limit_it_ends_at_once(store: DuckDBStore) -> None:
    asyncio.run(retain(store, None, lambda _: None))
    assert names(store) == AGES_H.keys()
