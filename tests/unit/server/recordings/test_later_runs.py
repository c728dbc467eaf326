"""Which later runs of a store followed a finding's advice, and how little is read for that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loaderwatch.core.answers import Finding
from loaderwatch.core.wire import Envelope
from loaderwatch.server.recordings import later_runs
from loaderwatch.server.recordings.later_runs import LaterRuns
from loaderwatch.server.recordings.run_measures import observed
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.protocol import StoreError
from tests.fakes.runs import SECOND, T0
from tests.fakes.two_runs import paced
from tests.unit.advise.comparison.test_followed_advice import finding as made

LATER_NS = T0 + 200 * SECOND


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    store = DuckDBStore(tmp_path / "runs")
    store.append([paced("run-a", num_workers=2)])
    yield store
    store.close()


def quicker(run_id: str, after: int = 0, **more: Any) -> Envelope:
    facts: dict[str, Any] = {"iteration_s": 0.05, "wait_ratio": 0.1, "num_workers": 8}
    return paced(run_id, began_ns=LATER_NS + after * SECOND, **(facts | more))


def finding(**more: Any) -> Finding:
    return made(**({"began_at": T0 / 1e9 + 5} | more))


def of_script(sent: Envelope, **more: Any) -> Envelope:
    processes = [msgspec.structs.replace(process, **more) for process in sent.processes]
    return msgspec.structs.replace(sent, processes=processes)


def marked(store: DuckDBStore, *findings: Finding, by: LaterRuns | None = None) -> list[str | None]:
    found = (by or LaterRuns(store)).mark(store.run("run-a"), list(findings or (finding(),)))
    return [None if each.followed is None else each.followed.run_id for each in found]


def test_the_first_run_that_did_it_is_told(store: DuckDBStore) -> None:
    store.append([quicker("run-c", after=300), quicker("run-b")])
    (found,) = LaterRuns(store).mark(store.run("run-a"), [finding()])
    assert found.followed is not None
    assert found.followed.run_id == "run-b"
    assert found.followed.sentence.startswith("followed: ")
    assert found.followed.before_per_s == pytest.approx(10, rel=0.05)
    assert found.followed.after_per_s == pytest.approx(20, rel=0.05)
    assert found.followed.promised_per_s == pytest.approx(4 * found.followed.before_per_s)


def test_one_that_tells_too_little_is_passed_over(store: DuckDBStore) -> None:
    store.append([quicker("short", seconds=0.2), quicker("run-b", after=60)])
    assert marked(store) == ["run-b"]


def test_what_is_no_later_run_of_the_script_is_none(store: DuckDBStore) -> None:
    store.append(
        [
            paced("before", began_ns=T0 - 500 * SECOND, num_workers=8),
            paced("beside", began_ns=T0 + 2 * SECOND, num_workers=8),  # it began when nobody knew the advice
            of_script(quicker("other-name"), name="eval.py"),
            of_script(quicker("other-folder"), cwd="/home/else"),
            quicker("unchanged", num_workers=2),
            quicker("other-loader", name="val_loader", role="eval"),
            quicker("replayed", cached_batches=20),
            quicker("tuned", autotuned="before epoch 3: num_workers 4 → 8"),
        ]
    )
    assert marked(store) == [None]


def test_other_findings_stay_as_they_are(store: DuckDBStore) -> None:
    store.append([quicker("run-b")])
    assert marked(store, finding(advice="Read larger pieces."), finding(lost_s=None), finding()) == [
        None,
        None,
        "run-b",
    ]


def test_of_a_run_that_goes_on_no_other_is_looked_at(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append([paced("run-b", num_workers=2, state="live")])
    monkeypatch.setattr(store, "runs", lambda: pytest.fail("the runs were listed"))
    (found,) = LaterRuns(store).mark(store.run("run-b"), [finding()])
    assert found.followed is None
    assert marked(store, finding(advice="Read larger pieces.")) == [None]


def test_runs_are_read_once_while_they_stay_as_they_are(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append([quicker("run-b"), quicker("run-c", num_workers=2, after=50)])
    read: list[str] = []

    def counted(store: DuckDBStore, run_id: str) -> Any:
        read.append(run_id)
        return observed(store, run_id)

    monkeypatch.setattr(later_runs, "observed", counted)
    by = LaterRuns(store)
    assert marked(store, by=by) == marked(store, finding(), by=by) == ["run-b"]
    assert read == ["run-a", "run-b"], "and none that did not follow"


def test_only_the_next_runs_are_looked_at(store: DuckDBStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later_runs, "MOST_LATER", 2)
    store.append([quicker(f"same-{n}", num_workers=2, after=n) for n in range(2)])
    store.append([quicker("run-b", after=100)])
    assert marked(store) == [None]


def test_no_more_than_a_few_are_read(store: DuckDBStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later_runs, "MOST_READ", 1)
    store.append([quicker("short", seconds=0.2), quicker("run-b", after=60)])
    assert marked(store) == [None]


def test_a_run_that_cannot_be_read_hides_nothing(store: DuckDBStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.append([quicker("run-b"), quicker("run-c", after=50)])

    def damaged(store: DuckDBStore, run_id: str) -> Any:
        if run_id == "run-b":
            raise StoreError("the file is damaged")
        return observed(store, run_id)

    monkeypatch.setattr(later_runs, "observed", damaged)
    assert marked(store) == ["run-c"]
