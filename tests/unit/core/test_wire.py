"""Envelopes: round trip, and every way a stranger can get one wrong is named."""

from __future__ import annotations

import subprocess
import sys
from array import array
from typing import Any

import msgspec
import numpy as np
import pytest

from loaderwatch.core.errors import WireError
from loaderwatch.core.facts import HostInfo, StackDump
from loaderwatch.core.records import (
    KIND_TABLE,
    LATER_COLUMNS,
    RECORD_FIELDS,
    SLOT_FIELDS,
    TABLES,
    TIME_COLUMN,
    UNKNOWN,
    RecordKind,
)
from loaderwatch.core.wire import (
    MAX_ENVELOPE_BYTES,
    MAX_TEXT,
    MAX_TOGETHER,
    Envelope,
    decode,
    encode,
    join,
    pack_column,
    pack_table,
    row_count,
    run_of,
    split,
)
from tests.waiting import PATIENCE_S


def envelope(**changed: Any) -> Envelope:
    facts: dict[str, Any] = {
        "run_id": "run-1",
        "run_name": "Run 1",
        "stream": "host-1",
        "seq": 1,
        "made_ns": 10**18,
        "host": HostInfo(name="host", cpus=2),
    }
    return Envelope(**{**facts, **changed})


def steps(rows: int) -> dict[str, bytes]:
    return pack_table("steps", [tuple(range(len(TABLES["steps"]))) for _ in range(rows)])


def test_round_trip() -> None:
    sent = envelope(tables={"steps": steps(3)})
    assert decode(encode(sent)) == sent
    assert row_count(sent.tables["steps"]) == 3
    assert row_count({}) == 0


def test_the_run_of_an_envelope_is_read_alone() -> None:
    assert run_of(encode(envelope(tables={"steps": steps(3)}))) == envelope().run_id
    for payload in (b"", b"\xc1", b"\x80", msgspec.msgpack.encode({"run_id": 7})):
        assert run_of(payload) is None


def test_unknown_is_not_zero() -> None:
    columns = {column.name: column for column in TABLES["gpus"]}
    assert array("q", pack_column(columns["rank"], [None, 3])).tolist() == [UNKNOWN, 3]
    power = array("d", pack_column(columns["power_w"], [None, 1.5]))
    assert power[0] != power[0]
    assert power[1] == 1.5


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"schema": 2}, "schema"),
        ({"run_id": "Run 1"}, "run_id"),
        ({"stream": "../x"}, "stream"),
        ({"run_name": "x" * 501}, "run_name"),
        ({"seq": 0}, "seq"),
        ({"made_ns": -1}, "made_ns"),
        (
            {"stacks": [StackDump(rank=0, worker=-1, pid=1, taken_ns=1, text="x" * (MAX_TEXT + 1))]},
            "stacks[0].text",
        ),
        ({"tables": {"steps": {"nope": b""}}}, "tables.steps.rank"),
        ({"tables": {"steps": {"rank": b""}}}, "tables.steps.loader"),
        ({"tables": {"steps": {**steps(1), "rank": b"1234567"}}}, "tables.steps.rank"),
        ({"tables": {"steps": {**steps(1), "rank": b""}}}, "tables.steps"),
    ],
)
def test_wrong_field_is_named(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(WireError) as caught:
        decode(encode(envelope(**changed)))
    assert caught.value.field == field


@pytest.mark.parametrize(
    "payload", [b"", b"\xc1", b"not msgpack", b"\x81" * 2000, msgspec.msgpack.encode([1])]
)
def test_garbage_is_refused(payload: bytes) -> None:
    with pytest.raises(WireError):
        decode(payload)


def test_wrong_type_is_named_by_its_path() -> None:
    raw = msgspec.to_builtins(envelope())
    raw["host"]["cpus"] = "two"
    with pytest.raises(WireError) as caught:
        decode(msgspec.msgpack.encode(raw))
    assert caught.value.field == "host.cpus"


def test_oversized_is_refused() -> None:
    with pytest.raises(WireError, match="at most"):
        decode(b"\x00" * (MAX_ENVELOPE_BYTES + 1))


def test_columns_that_came_later_may_be_missing() -> None:
    """An older streamer does not send them, nor does an outbox that one left."""
    for name, later in LATER_COLUMNS.items():
        columns_now = [column.name for column in TABLES[name]]
        assert set(columns_now[-len(later) :]) == later  # at the end: positions of the others stay
        table = pack_table(name, [tuple(range(len(columns_now)))] * 3)
        for missing in later:
            del table[missing]
        found = decode(encode(msgspec.structs.replace(envelope(), tables={name: table}))).tables[name]
        for column in TABLES[name]:
            if column.name in later:
                values = np.frombuffer(found[column.name], dtype="<i8" if column.dtype == "i8" else "<f8")
                assert values.size == 3
                assert (values == UNKNOWN).all() if column.dtype == "i8" else np.isnan(values).all()


def test_what_a_newer_streamer_adds_is_left_out_and_named() -> None:
    newer = envelope(tables={"steps": {**steps(2), "tokens": b"\0" * 16}, "switches": {"t_ns": b"\0" * 8}})
    unknown: set[str] = set()
    found = decode(encode(newer), unknown)
    assert found == envelope(tables={"steps": steps(2)})
    assert unknown == {"tables.steps.tokens", "tables.switches"}
    raw = {**msgspec.to_builtins(envelope()), "mood": "fine"}
    assert decode(msgspec.msgpack.encode(raw)) == envelope()


def test_records_fit_their_slots_and_tables() -> None:
    for kind in RecordKind:
        assert len(RECORD_FIELDS[kind]) <= SLOT_FIELDS - 3
        names = [column.name for column in TABLES[KIND_TABLE[kind]]]
        assert names == ["rank", *RECORD_FIELDS[kind]]
    for name, columns in TABLES.items():
        assert len({column.name for column in columns}) == len(columns)
        assert TIME_COLUMN[name] in {column.name for column in columns}


def test_several_envelopes_go_together() -> None:
    """One goes as it is; an array of binaries is several."""
    payloads = [encode(envelope(seq=seq)) for seq in range(1, 4)]
    assert split(join(payloads[:1])) == payloads[:1] == [join(payloads[:1])]
    assert split(join(payloads)) == payloads
    assert len(split(join(payloads[:1] * MAX_TOGETHER))) == MAX_TOGETHER == 64
    with pytest.raises(WireError, match="65 envelopes; 1 to 64 may come together"):
        split(join(payloads[:1] * (MAX_TOGETHER + 1)))


@pytest.mark.parametrize(
    "body", [b"\x90", b"\x91", b"\x91\x01", b"\x92\xc4\x01a", b"\xdd\xff\xff\xff\xff", b"\x91\x91\xc4\x01a"]
)
def test_what_is_no_array_of_envelopes_is_refused(body: bytes) -> None:
    """Empty, cut off, of something else, of a length nobody would send."""
    with pytest.raises(WireError, match="body"):
        split(body)


MANY_FIELDS = """
from __future__ import annotations
import msgspec
class Inner(msgspec.Struct):
    a: int = 0
    b: str | None = None
    c: list[int] = []
class Outer(msgspec.Struct):
    number: int = 0
    inner: list[Inner] = []
    named: dict[str, Inner] = {}
    text: str | None = None
"""
"""The fields' types are texts, so that looking at them runs Python, where threads take turns."""


def test_a_type_may_be_decoded_by_several_threads_at_once() -> None:
    """msgspec alone crashes the interpreter within some hundred tries of this."""
    script = f"""
import sys, threading, types
import msgspec
from loaderwatch.core.wire import decode_json
sys.setswitchinterval(1e-6)
for number in range(400):
    module = sys.modules["made"] = types.ModuleType("made")
    exec({MANY_FIELDS!r}, vars(module))
    together = threading.Barrier(8)
    found = []
    def decode():
        together.wait()
        found.append(decode_json(b'{{"inner": [{{"a": 1}}], "text": "x"}}', module.Outer))
    threads = [threading.Thread(target=decode) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
