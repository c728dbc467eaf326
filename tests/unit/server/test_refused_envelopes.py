"""An envelope that is refused leaves a real store as it was, to the row."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loaderwatch.core.errors import WireError
from loaderwatch.core.records import TABLES
from loaderwatch.core.wire import decode
from loaderwatch.server.ingest import Ingest
from loaderwatch.server.store.duckdb import DuckDBStore
from tests.fakes.hostile import full_envelope

END_NS = 2**62


def put(*path: Any) -> Callable[[dict[str, Any], Any], None]:
    """Puts a value at a place of an envelope."""

    def change(envelope: dict[str, Any], value: Any) -> None:
        at: Any = envelope
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value

    return change


# Each spoils one place and leaves the rest right: the envelope names the run that is stored, or a new one.
FAULTS: dict[str, tuple[Callable[[dict[str, Any], Any], None], st.SearchStrategy[Any]]] = {
    "run": (put("run_id"), st.sampled_from(["../x", "Run", "", "a/b", "a\0", "x" * 65, "-a", "a\n"])),
    "stream": (put("stream"), st.sampled_from(["../x", "", "A", "s" * 65])),
    "seq": (put("seq"), st.sampled_from([0, -1, 2**63, 1.5, None, "2"])),
    "made": (put("made_ns"), st.sampled_from([0, -1, 2**62, None])),
    "schema": (put("schema"), st.integers(2, 2**40)),
    "name": (put("run_name"), st.integers(501, 5000).map(lambda n: "n" * n)),
    "rank": (put("processes", 0, "rank"), st.sampled_from([-2, 1 << 16, 2**63, None, "0"])),
    "host": (put("host"), st.sampled_from([None, {}, [], "gpu01"])),
    "table": (put("tables", "steps"), st.sampled_from([None, {}, {"rank": b"\0" * 8}, [1]])),
    "column": (put("tables", "steps", "wait_ns"), st.binary(max_size=80).filter(lambda b: len(b) != 40)),
    "ranks": (put("tables", "steps", "rank"),
              st.integers(1 << 16, 2**62).map(lambda r: r.to_bytes(8, "little") * 5)),
    "stack": (put("stacks", 0, "text"), st.integers(65 * 1024, 200_000).map(lambda n: "s" * n)),
    "words": (put("processes", 0, "argv"), st.just(["a" * 300_000])),  # decoded in a thread
}  # fmt: skip


def contents(store: DuckDBStore, folder: Path) -> Any:
    """All that an envelope could change."""
    (run,) = store.runs()
    rows = {
        table: {name: column.tolist() for name, column in store.scan("run-1", table, 0, END_NS).items()}
        for table in TABLES
    }
    events = [repr(event) for event in store.events("run-1", 0, END_NS)]
    files = sorted(path.name for path in folder.iterdir() if path.suffix == ".duckdb")
    return (
        msgspec.structs.replace(run, bytes=0),
        rows,
        events,
        store.stored_seq("run-1", "run-1-gpu01"),
        files,
    )


def refuse(folder: Path, examples: int) -> None:
    loop = asyncio.new_event_loop()
    store = DuckDBStore(folder)
    ingest = Ingest(store)
    try:

        async def begin() -> None:
            ingest.start()
            await ingest.submit([msgspec.msgpack.encode(full_envelope())])

        loop.run_until_complete(begin())
        before = contents(store, folder)
        told: list[str] = []
        ingest.on_stored(lambda envelope, _: told.append(envelope.run_id))

        @settings(
            max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        @given(
            st.sampled_from(sorted(FAULTS)).flatmap(lambda name: st.tuples(st.just(name), FAULTS[name][1])),
            st.sampled_from(["run-1", "run-new"]),
            st.integers(2, 1000),
        )
        def check(fault: tuple[str, Any], run_id: str, seq: int) -> None:
            envelope = full_envelope(run_id)
            envelope["seq"] = seq
            decode(msgspec.msgpack.encode(envelope))  # right but for the fault
            FAULTS[fault[0]][0](envelope, fault[1])
            with pytest.raises(WireError) as refusal:
                loop.run_until_complete(ingest.submit([msgspec.msgpack.encode(envelope)]))
            assert len(str(refusal.value)) < 1000

        check()
        assert told == []
        assert ingest.waiting_bytes == 0
        assert contents(store, folder) == before
    finally:
        loop.run_until_complete(ingest.stop())
        store.close()
        loop.close()


def test_a_refused_envelope_changes_nothing(tmp_path: Path) -> None:
    refuse(tmp_path, 40)


@pytest.mark.long
def test_many_refused_envelopes_change_nothing(tmp_path: Path) -> None:
    refuse(tmp_path, 1000)
