from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from loaderwatch.core.facts import ProfileStack
from loaderwatch.core.records import UNKNOWN, ProfilePart, ThreadState
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.store.facts import unpack_text
from loaderwatch.server.store.protocol import UnknownRun
from loaderwatch.server.store.sql import profile_queries
from loaderwatch.server.window.replay import rebuild, windows
from tests.fakes.profiles import OWN, PICTURE, STACKS, TEXTS, ZIP, counts
from tests.fakes.runs import SECOND, T0, envelope, process, span, steps, table

DAY = 24 * 3600 * SECOND
END = T0 + 2 * DAY


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    opened = DuckDBStore(tmp_path)
    yield opened
    opened.close()


def _texts(store: DuckDBStore) -> dict[int, str]:
    return {stack.id: stack.text for stack in store.profile_stacks("run-1", 0, END)}


def test_counts_are_summed_by_rank_stack_and_state(store: DuckDBStore) -> None:
    parts = [ProfilePart.FETCH] * 4 + [ProfilePart.STEP]
    rows = counts(
        [ZIP, ZIP, ZIP, 0, OWN],
        [1, 2, 4, 8, 16],
        rank=[0, 0, 1, 1, 0],
        worker=[0, 1, 0, 0, -1],
        loader=[0, 1, 0, 0, UNKNOWN],
        t_ns=[T0, T0 + 9, T0 + 5, T0 + 5, T0],
        state=[ThreadState.DISK, ThreadState.DISK, ThreadState.DISK, UNKNOWN, ThreadState.RUNNING],
        part=parts,
        readers=[1, 4, 8, UNKNOWN, 0],
    )
    store.append([envelope(1, tables={"profile": rows}, profile_stacks=STACKS)])
    found = store.profile("run-1", ProfilePart.FETCH, None, T0, END)
    by_row = {name: values.tolist() for name, values in found.counts.items()}
    assert by_row == {
        "rank": [0, 1, 1],
        "part": [1, 1, 1],
        "state": [3, UNKNOWN, 3],
        "stack": [ZIP, 0, ZIP],
        "samples": [3, 8, 4],
        "readers": [5, 0, 8],
        "t_ns": [T0 + 9, T0 + 5, T0 + 5],
    }
    assert found.first_ns == T0
    assert found.texts == {ZIP: TEXTS[ZIP]}
    assert store.profile("run-1", ProfilePart.FETCH, 1, T0, END).counts["samples"].tolist() == [8, 4]
    assert store.profile("run-1", ProfilePart.FETCH, 0, T0 + 1, T0 + 9).first_ns is None
    assert store.profile("run-1", ProfilePart.EVALUATION, None, T0, END).texts == {}
    with pytest.raises(UnknownRun):
        store.profile("nope", ProfilePart.FETCH, None, T0, END)


def test_only_the_most_frequent_stacks_have_texts(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of a day has thousands of stacks, and reading them all would take seconds."""
    monkeypatch.setattr(profile_queries, "MOST_READ", 1)
    rows = counts([ZIP, OWN, PICTURE, ZIP], [6, 2, 3, 1], rank=[0, 0, 1, 1])
    store.append([envelope(1, tables={"profile": rows}, profile_stacks=STACKS)])
    found = store.profile("run-1", ProfilePart.FETCH, None, T0, END)
    shown = zip(*(found.counts[name].tolist() for name in ("rank", "stack", "samples")), strict=True)
    assert sorted(shown) == [(0, 0, 2), (0, ZIP, 6), (1, 0, 3), (1, ZIP, 1)]
    assert found.texts == {ZIP: TEXTS[ZIP]}


def test_hostile_counts_do_not_overflow(store: DuckDBStore) -> None:
    store.append([envelope(1, tables={"profile": counts([ZIP] * 4, [2**62, 2**62, -5, UNKNOWN])})])
    found = store.profile("run-1", ProfilePart.FETCH, None, T0, END)
    assert found.counts["samples"].tolist() == [2_000_000]


def test_shares_are_of_the_usual_fetch_and_of_a_steps_own_work(store: DuckDBStore) -> None:
    fetches = table(
        "fetches",
        rank=[0, 0, 0, 1],
        loader=0,
        worker=0,
        ordinal=0,
        request_ns=T0,
        fetch_ns=[2 * SECOND, 4 * SECOND, UNKNOWN, 20 * SECOND],
        samples=[8, 4, 9, UNKNOWN],
    )
    own = steps(0, [T0, T0 + SECOND], 0, SECOND, forward_ns=SECOND // 4, backward_ns=[SECOND // 4, UNKNOWN])
    evaluated = steps(0, [T0], 0, [9 * SECOND], loader=1)
    store.append([envelope(1, tables={"fetches": fetches, "steps": own})])
    store.append([envelope(2, tables={"steps": evaluated})])

    def usual(part: ProfilePart, rank: int | None) -> list[float | None]:
        found = store.profile("run-1", part, rank, T0, END)
        return [None if each is None else round(each, 6) for each in (found.sample_s, found.batch_s)]

    assert usual(ProfilePart.FETCH, 0) == [0.5, 3.0]
    assert usual(ProfilePart.FETCH, None) == [0.5, 8.666667]
    assert usual(ProfilePart.FETCH, 1) == [None, 20.0]
    assert usual(ProfilePart.FETCH, 2) == [None, None]
    assert usual(ProfilePart.STEP, 0) == [None, 0.625]
    assert usual(ProfilePart.STEP, 1) == [None, None]
    assert usual(ProfilePart.BOUNDARY, 0) == [None, None]


def test_each_text_is_stored_once_and_lasts_as_long_as_its_counts(tmp_path: Path) -> None:
    for seq in range(1, 6):  # a server that is started again each time
        store = DuckDBStore(tmp_path)
        repeated = [*STACKS, ProfileStack(id=ZIP, text="something else")]
        rows = counts([ZIP, OWN], [1, 1], t_ns=T0 + seq * SECOND)
        both = [envelope(seq * 2 + n, tables={"profile": rows}, profile_stacks=repeated) for n in range(2)]
        store.append(both)
        store.close()
    with duckdb.connect(str(tmp_path / "run-1.duckdb")) as outside:
        kept = outside.execute("SELECT stack, body FROM profile_stacks").fetchall()
    assert {number: unpack_text(body) for number, body in kept} == TEXTS
    assert len(kept) == len(TEXTS)
    store = DuckDBStore(tmp_path)
    store.append([envelope(99, made_ns=T0 + DAY, tables={"profile": counts([OWN], [1], t_ns=T0 + DAY)})])
    assert _texts(store) == {number: TEXTS[number] for number in (ZIP, OWN)}
    assert store.profile("run-1", ProfilePart.FETCH, 0, T0, T0 + DAY).texts[ZIP] == TEXTS[ZIP]
    assert [stack.id for stack in store.profile_stacks("run-1", T0 + DAY, END)] == [OWN]
    assert list(store.all_profile_stacks("run-1")) == sorted(STACKS, key=lambda stack: stack.id)
    assert not any(event.body.profile_stacks for event in store.all_events("run-1"))
    store.close()


def test_a_server_that_was_started_again_knows_old_texts_of_new_counts(store: DuckDBStore) -> None:
    store.append([envelope(1, tables={"profile": counts([ZIP, OWN], [1, 1])}, profile_stacks=STACKS)])
    made_ns = T0 + 600 * SECOND
    newest = counts([OWN], [5], t_ns=made_ns)
    store.append([envelope(2, made_ns=made_ns, tables={"profile": newest}, spans=[span(0, made_ns)])])
    (rank,) = rebuild(store, "run-1").window().ranks.values()
    assert dict(rank.profile_texts) == {OWN: TEXTS[OWN]}
    assert rank.table("profile")["samples"].tolist() == [5]
    recent = store.recent("run-1", 60 * SECOND, [0], [])
    assert [stack.id for stack in recent.profile_stacks] == [OWN]
    assert store.recent("run-1", 60 * SECOND, [1], []).profile_stacks == []
    *_, last = windows(store, "run-1", every_s=60.0)
    assert dict(last.ranks[0].profile_texts) == {number: TEXTS[number] for number in (ZIP, OWN)}


def test_a_file_of_an_older_version_is_read_and_goes_on(tmp_path: Path) -> None:
    store = DuckDBStore(tmp_path)
    tables = {"profile": counts([ZIP], [1])}
    store.append([envelope(1, processes=[process(0)], tables=tables, profile_stacks=STACKS)])
    store.close()
    with duckdb.connect(str(tmp_path / "run-1.duckdb")) as outside:
        outside.execute("DROP TABLE profile")
        outside.execute("DROP TABLE profile_stacks")
    for read_only in (True, False):
        store = DuckDBStore(tmp_path, read_only=read_only)
        found = store.profile("run-1", ProfilePart.FETCH, None, 0, END)
        assert (found.counts["samples"].size, found.texts, found.first_ns) == (0, {}, None)
        assert list(store.all_profile_stacks("run-1")) == []
        assert _texts(store) == {}
        assert rebuild(store, "run-1").window().ranks[0].table("profile")["rank"].size == 0
        store.close()
    store = DuckDBStore(tmp_path)
    store.append([envelope(2, tables={"profile": counts([PICTURE], [3])}, profile_stacks=STACKS)])
    assert _texts(store) == {PICTURE: TEXTS[PICTURE]}
    store.close()
