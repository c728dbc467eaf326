"""For any bytes ``decode`` gives a valid envelope or a WireError, in bounded time and memory."""

from __future__ import annotations

import struct
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loaderwatch.core.errors import WireError
from loaderwatch.core.facts import MAX_NAME, MAX_RANKS
from loaderwatch.core.records import TABLES
from loaderwatch.core.wire import (
    MAX_AGAIN,
    MAX_ENVELOPE_BYTES,
    MAX_ITEMS,
    MAX_ROWS,
    MAX_TEXT,
    RUN_ID_PATTERN,
    Envelope,
    decode,
    encode,
    row_count,
    run_of,
)
from tests.fakes.hostile import full_envelope
from tests.fakes.runs import envelope, process

EXAMPLES = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from([0, -1, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63), 2**64 - 1, MAX_RANKS]),
    st.floats(),
    st.text(max_size=40),
    st.sampled_from(
        ["", "..", "../../etc/passwd", "a\0b", "\x1b[2J", "CON", "run\u202egpj", "x" * 10_000, "A", "run 1"]
    ),
    st.binary(max_size=40),
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=6), st.dictionaries(st.text(max_size=12), inner, max_size=6)
    ),
    max_leaves=20,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a structure."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from places(each, (*path, index))


def with_change(envelope: dict[str, Any], path: tuple[Any, ...], change: Callable[[Any], Any]) -> None:
    """Change what is at a place, if an earlier change has left it there."""
    at: Any = envelope
    try:
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = change(at[path[-1]])
    except (KeyError, IndexError, TypeError):
        return


def checked(payload: bytes) -> Envelope | None:
    """The envelope with all that its users rely on, or None if refused. Any error but WireError fails."""
    refusal = ""
    try:
        envelope = decode(payload)
    except WireError as error:
        refusal = str(error)
    if refusal:
        assert len(refusal) < 1000, "a refusal does not repeat what it was sent"
        return None
    assert RUN_ID_PATTERN.match(envelope.run_id)
    assert RUN_ID_PATTERN.match(envelope.stream)
    assert "/" not in envelope.run_id + envelope.stream
    assert len(envelope.run_name) <= MAX_NAME
    assert 1 <= envelope.seq < 2**63
    assert 0 < envelope.made_ns < 2**62
    assert all(len(stack.text) <= MAX_TEXT for stack in envelope.stacks)
    assert all(-1 <= process.rank < MAX_RANKS for process in envelope.processes)
    for name, table in envelope.tables.items():
        assert set(table) == {column.name for column in TABLES[name]}
        assert {len(data) for data in table.values()} == {8 * row_count(table)}
        assert row_count(table) <= MAX_ROWS
    assert decode(encode(envelope)) == envelope
    return envelope


@EXAMPLES
@given(st.data())
def test_envelopes_with_anything_anywhere(data: st.DataObject) -> None:
    envelope = full_envelope()
    paths = list(places(envelope))
    for path in data.draw(st.lists(st.sampled_from(paths), min_size=1, max_size=4)):
        new = data.draw(anything)
        with_change(envelope, path, lambda _, new=new: new)  # type: ignore[misc]
    checked(msgspec.msgpack.encode(envelope))


@EXAMPLES
@given(st.data())
def test_envelopes_whose_columns_are_cut_swapped_or_stretched(data: st.DataObject) -> None:
    envelope = full_envelope()
    columns = [path for path in places(envelope) if path[0] == "tables" and len(path) == 3]
    for path in data.draw(st.lists(st.sampled_from(columns), min_size=1, max_size=4)):
        extreme = data.draw(st.sampled_from([0, -1, 2**63 - 1, -(2**63), 2**40, MAX_RANKS]))
        times = data.draw(st.integers(0, 40))
        cut = data.draw(st.integers(0, 9))
        with_change(
            envelope,
            path,
            lambda _, e=extreme, t=times, c=cut: (struct.pack("<q", e) * t)[c:],  # type: ignore[misc]
        )
    checked(msgspec.msgpack.encode(envelope))


@EXAMPLES
@given(st.data())
def test_envelopes_with_missing_and_foreign_keys(data: st.DataObject) -> None:
    envelope = full_envelope()
    paths = [path for path in places(envelope) if isinstance(path[-1], str)]
    for path in data.draw(st.lists(st.sampled_from(paths), min_size=1, max_size=3)):
        at: Any = envelope
        try:
            for step in path[:-1]:
                at = at[step]
            value = at.pop(path[-1])
            if data.draw(st.booleans()):
                at[data.draw(st.text(max_size=20))] = value
        except (KeyError, IndexError, TypeError, AttributeError):
            continue
    checked(msgspec.msgpack.encode(envelope))


@EXAMPLES
@given(st.data())
def test_envelopes_with_damaged_bytes(data: st.DataObject) -> None:
    """Also the lengths that MessagePack declares: they are bytes among the others."""
    payload = bytearray(msgspec.msgpack.encode(full_envelope()))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(payload) - 1))
        match data.draw(st.integers(0, 3)):
            case 0:
                payload[at] = data.draw(st.integers(0, 255))
            case 1:
                del payload[at : at + data.draw(st.integers(1, 50))]
            case 2:
                payload[at:at] = data.draw(st.binary(max_size=20))
            case _:  # a header that promises much
                payload[at : at + 5] = data.draw(
                    st.sampled_from(
                        [
                            b"\xdd\xff\xff\xff\xff",
                            b"\xdf\xff\xff\xff\xff",
                            b"\xc6\xff\xff\xff\xff",
                            b"\xdb\x7f\xff\xff\xff",
                        ]
                    )
                )
        payload = payload or bytearray(b"\0")
    checked(bytes(payload))


@EXAMPLES
@given(st.binary(max_size=2000))
def test_any_bytes(payload: bytes) -> None:
    checked(payload)


@EXAMPLES
@given(anything)
def test_any_message(message: Any) -> None:
    checked(msgspec.msgpack.encode(message))


@pytest.mark.parametrize(
    "run_id",
    [
        "..",
        ".",
        "a/b",
        "/etc",
        "a\\b",
        "a\0",
        "a\n",
        "a\n\n",
        "A",
        "-a",
        "_a",
        "",
        "a" * 65,
        "a b",
        "ａ",
        "é",
        "a\u202e",
        "con.",
        "nul:",
        "a.b",
        "~",
        "%2e%2e",
    ],
)
def test_ids_that_climb_or_hide(run_id: str) -> None:
    for field in ("run_id", "stream"):
        with pytest.raises(WireError) as caught:
            decode(msgspec.msgpack.encode(full_envelope() | {field: run_id}))
        assert caught.value.field == field


# ---- bombs: 8 MiB made to be as large as can be once decoded

FULL = MAX_ENVELOPE_BYTES - 200_000
MOST_MEMORY = 64 * 2**20
"""While the worst of them is looked at. Their values are counted before there is an object for each."""
MOST_LOOPS = 20  # the worst takes four of them


def packed(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)


def with_raw(field: str, raw: bytes, outer: dict[str, Any] | None = None) -> bytes:
    """An envelope whose ``field`` is these bytes."""
    marker = b"\xc4\x0dTHE-BOMB-HERE"
    envelope = full_envelope() if outer is None else outer
    at: Any = envelope
    *steps, last = field.split(".")
    for step in steps:
        at = at[int(step)] if step.isdecimal() else at[step]
    at[last] = b"THE-BOMB-HERE"
    return packed(envelope).replace(marker, raw)


def array(count: int, item: bytes) -> bytes:
    return b"\xdd" + count.to_bytes(4, "big") + item * count


def mapping(count: int, value: bytes) -> bytes:
    return (
        b"\xdf"
        + count.to_bytes(4, "big")
        + b"".join(packed(f"{number:x}") + value for number in range(count))
    )


PROCESS = packed({"pid": 1, "rank": 0, "local_rank": 0, "world_size": 1, "started_ns": 1})
SPAN = packed({"rank": 0, "worker": 0, "pid": 1, "phase": "idle", "since_ns": 1})
BOMBS = {
    "words": lambda: with_raw("processes.0.argv", array(FULL // 2, b"\xa1x")),
    "empty words": lambda: with_raw("processes.0.phase_names", array(FULL, b"\xa0")),
    "processes": lambda: with_raw("processes", array(FULL // len(PROCESS), PROCESS)),
    "spans": lambda: with_raw("spans", array(FULL // len(SPAN), SPAN)),
    "tables": lambda: with_raw("tables", mapping(FULL // 8, b"\x80")),
    "columns": lambda: with_raw("tables.steps", mapping(FULL // 9, b"\xc4\x00")),
    "variables": lambda: with_raw("processes.0.thread_limits", mapping(FULL // 8, b"\xa0")),
    "what is not known": lambda: with_raw("from_the_future", array(FULL, b"\x90")),
    "nesting": lambda: with_raw("from_the_future", b"\x91" * FULL + b"\x90"),
    "nesting of maps": lambda: with_raw("host", b"\x81\xa1a" * (FULL // 3) + b"\x80"),
    "one long text": lambda: with_raw("run_name", b"\xdb" + FULL.to_bytes(4, "big") + b"x" * FULL),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_bombs_are_refused_in_bounded_time_and_memory(kind: str) -> None:
    payload = BOMBS[kind]()
    assert 2**20 < len(payload) < MAX_ENVELOPE_BYTES
    began = time.thread_time()
    if checked_alone(payload):
        assert kind == "what is not known", "only what is skipped may pass"
    taken_s = time.thread_time() - began
    began = time.thread_time()
    sum(1 for byte in payload if byte)
    assert taken_s < MOST_LOOPS * (time.thread_time() - began), "longer than Python loops over its bytes"
    tracemalloc.start()
    try:
        checked_alone(payload)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_MEMORY
    assert held < 2**20, "nothing of it is kept"


def checked_alone(payload: bytes) -> bool:
    try:
        decode(payload)
    except WireError:
        return False
    return True


def test_what_passes_is_small_in_memory() -> None:
    """As many things as one envelope may hold."""
    most = MAX_ITEMS - 100
    payload = with_raw("processes.0.argv", array(most, b"\xa1x"))
    tracemalloc.start()
    try:
        envelope = decode(payload)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(envelope.processes[0].argv) == most
    assert held < 16 * 2**20
    with pytest.raises(WireError, match="at most"):
        decode(with_raw("processes.0.argv", array(MAX_ITEMS, b"\xa1x")))


def test_refusals_do_not_use_up_the_stack() -> None:
    depth = sys.getrecursionlimit() * 50
    for opening in (b"\x91", b"\x81\xa1a", b"\x81\xa6tables", b"\x91\x81\xa1x"):
        assert not checked_alone(opening * depth)


@pytest.mark.parametrize(
    "value",
    [
        b"\x91" * 100_000 + b"\xc0",  # nested more deeply than Python's stack
        b"\xa2\xff\xfe",  # text that is no UTF-8
        b"\xc1",
    ],
)
def test_the_run_of_what_is_no_envelope_is_none(value: bytes) -> None:
    for payload in (value, b"\x81\xa6run_id" + value, b"\x82\xa5other" + value + b"\xa6run_id\xa1r"):
        assert run_of(payload) in (None, "r")
        with pytest.raises(WireError):
            decode(payload)


@pytest.mark.parametrize("again", [MAX_AGAIN, MAX_AGAIN + 1])
def test_a_rank_has_one_process(again: int) -> None:
    """Each more may begin an attempt of the run, for which all of its ranks are looked at."""
    several = encode(envelope(1, processes=[process(0, pid=1 + number) for number in range(1 + again)]))
    if again <= MAX_AGAIN:
        assert len(decode(several).processes) == 1 + again
    else:
        with pytest.raises(WireError, match="processes"):
            decode(several)
