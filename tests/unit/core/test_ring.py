"""The ring: written records are read, torn and overrun ones counted, and a killed writer's file is whole."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaderwatch.core.errors import RingError
from loaderwatch.core.records import RECORD_FIELDS, SLOT_FIELDS, UNKNOWN, Phase, RecordKind
from loaderwatch.core.ring import (
    HEADER_BYTES,
    MAIN_CAPACITY,
    SHORT_STEP,
    SLOT_BYTES,
    RingIdentity,
    RingReader,
    RingStatus,
    RingWriter,
    pack_short_step,
)
from loaderwatch.core.ring.span import (
    AWAITED_WORD,
    BATCH_WORD,
    CURSOR_WORD,
    SINCE_WORDS,
    STEP_FOLLOWS,
    STEPS_FOLLOW,
    STEPS_WORD,
)
from tests.waiting import PATIENCE_S

IDENTITY = RingIdentity(pid=7, parent_pid=6, loader=1, worker=2, created_ns=99)
END = (0, 1, 2, 3, 4, 5)


def named(kind: RecordKind, values: Iterable[int]) -> dict[str, int]:
    return dict(zip(RECORD_FIELDS[kind], values, strict=True))


def make(path: Path, capacity: int = 8) -> tuple[RingWriter, RingReader]:
    return RingWriter(path, IDENTITY, capacity), RingReader(path)


def test_round_trip(tmp_path: Path) -> None:
    writer, reader = make(tmp_path / "a.ring")
    assert reader.identity == IDENTITY
    assert reader.span() is None
    step = tuple(range(len(RECORD_FIELDS[RecordKind.STEP])))
    writer.append(RecordKind.STEP, **named(RecordKind.STEP, step))
    writer.append(RecordKind.EPOCH_END, **named(RecordKind.EPOCH_END, END))
    drained = reader.drain(0)
    assert drained.records == {RecordKind.STEP: [step], RecordKind.EPOCH_END: [END]}
    assert (drained.cursor, drained.lost) == (2, 0)
    assert reader.drain(2).records == {}


def test_span_and_status(tmp_path: Path) -> None:
    writer, reader = make(tmp_path / "a.ring")
    writer.set_span(Phase.FETCH, 1000, 3, batches=5)
    writer.set_sample(81, 1500)
    span = reader.span()
    assert span is not None
    assert (span.phase, span.since_ns, span.loader, span.batches) == (Phase.FETCH, 1000, 3, 5)
    assert (span.sample_index, span.sample_since_ns, span.epoch) == (81, 1500, UNKNOWN)
    writer.set_span(Phase.IDLE, 2000)
    span = reader.span()
    assert span is not None
    assert span.sample_index == UNKNOWN
    status = RingStatus(True, 41, 2, False)
    writer.set_status(status)
    assert reader.status() == status


def test_a_record_has_all_its_fields_and_no_other(tmp_path: Path) -> None:
    writer, reader = make(tmp_path / "a.ring")
    whole = named(RecordKind.EPOCH_END, END)
    with pytest.raises(KeyError, match="teardown_ns"):
        writer.append(RecordKind.EPOCH_END, **{k: v for k, v in whole.items() if k != "teardown_ns"})
    with pytest.raises(TypeError, match="EPOCH_END has no field tear_down"):
        writer.append(RecordKind.EPOCH_END, tear_down=1, **whole)
    assert reader.drain(0).records == {}


def test_a_short_step_is_read_whole(tmp_path: Path) -> None:
    writer, reader = make(tmp_path / "a.ring")
    values = range(100, 100 + len(RECORD_FIELDS[RecordKind.STEP]))
    writer.append(RecordKind.STEP, **named(RecordKind.STEP, values))
    measured = tuple(range(RECORD_FIELDS[RecordKind.STEP].index("step_ns") + 1))
    number = next(writer.numbers)
    pack_short_step(
        writer.memory, HEADER_BYTES + (number - 1) * SLOT_BYTES, number, SHORT_STEP, *measured, number
    )
    writer.words[CURSOR_WORD] = number
    step = dict(zip(RECORD_FIELDS[RecordKind.STEP], reader.drain(1).records[RecordKind.STEP][0], strict=True))
    assert tuple(step.values())[: len(measured)] == measured
    assert (step["nested_ns"], step["off_main_thread"]) == (0, 0)
    assert {name for name, value in step.items() if value == UNKNOWN} == {
        "h2d_ns",
        "forward_ns",
        "backward_ns",
        "optimizer_ns",
        "optimizer_steps",
        "collective_ns",
    }
    struct.pack_into("<q", writer.memory, HEADER_BYTES + SLOT_BYTES + (len(measured) + 2) * 8, 0)
    assert reader.drain(1).cursor == 1  # torn: waits
    assert reader.drain(1, final=True).lost == 1


def test_the_innermost_phase_is_the_one_that_began_last(tmp_path: Path) -> None:
    """And the counters go on with the batch, or with the optimizer's steps, by single words."""
    writer, reader = make(tmp_path / "a.ring")

    def said() -> tuple[object, ...]:
        span = reader.span()
        assert span is not None
        return span.phase, span.since_ns, span.batch, span.step, span.batches, span.steps, span.awaited_worker

    writer.set_span(
        Phase.STEP, 1000, 0, 2, 7, 107, batches=208, steps=307, follows=STEP_FOLLOWS | STEPS_FOLLOW
    )
    assert said() == (Phase.STEP, 1000, 7, 107, 208, 307, UNKNOWN)
    words = writer.words
    words[SINCE_WORDS[Phase.FORWARD]] = 1100
    assert said()[:2] == (Phase.FORWARD, 1100)
    words[SINCE_WORDS[Phase.FORWARD]] = UNKNOWN
    assert said()[:2] == (Phase.STEP, 1000)
    words[BATCH_WORD], words[AWAITED_WORD], words[SINCE_WORDS[Phase.WAIT]] = 8, 3, 1200
    assert said() == (Phase.WAIT, 1200, 8, 107, 208, 308, 3)
    words[SINCE_WORDS[Phase.STEP]] = 1300
    assert said() == (Phase.STEP, 1300, 8, 108, 209, 308, UNKNOWN)
    writer.set_span(Phase.STEP, 1400, 0, 2, 7, 50, batches=208, steps=51)
    words[STEPS_WORD] = 52
    words[BATCH_WORD] = 8
    assert said() == (Phase.STEP, 1400, 8, 51, 209, 52, UNKNOWN)
    writer.close()


def test_a_closure_is_part_of_the_optimizers_step(tmp_path: Path) -> None:
    """Model calls of a search do not restart the step; a step with an error is over when the next begins."""
    writer, reader = make(tmp_path / "a.ring")

    def said() -> tuple[Phase, int, int]:
        span = reader.span()
        assert span is not None
        return span.phase, span.since_ns, span.step_since_ns

    writer.set_span(Phase.STEP, 1000, 0, 0, 7, 7, batches=7, steps=7)
    assert said() == (Phase.STEP, 1000, 1000)
    words = writer.words
    words[SINCE_WORDS[Phase.FORWARD]] = 1050
    assert said() == (Phase.FORWARD, 1050, 1000)
    words[SINCE_WORDS[Phase.OPTIMIZER]] = 1100
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        words[SINCE_WORDS[phase]] = 1200
        assert said() == (Phase.OPTIMIZER, 1100, 1000)
    words[SINCE_WORDS[Phase.STEP]] = 1300
    words[SINCE_WORDS[Phase.FORWARD]] = 1400
    assert said() == (Phase.FORWARD, 1400, 1300)
    words[SINCE_WORDS[Phase.WAIT]] = 1500
    assert said() == (Phase.WAIT, 1500, UNKNOWN)
    writer.close()


@given(written=st.integers(0, 60), read_before=st.integers(0, 60))
@settings(max_examples=40, deadline=None)
def test_every_record_is_read_or_counted(
    tmp_path_factory: pytest.TempPathFactory, written: int, read_before: int
) -> None:
    writer, reader = make(tmp_path_factory.mktemp("ring") / "a.ring", capacity=8)
    read, lost, cursor = 0, 0, 0
    for number in range(written):
        writer.append(RecordKind.EPOCH_END, **named(RecordKind.EPOCH_END, (number, 0, 0, 0, 0, 0)))
        if number == read_before or number == written - 1:
            drained = reader.drain(cursor)
            read += len(drained.records.get(RecordKind.EPOCH_END, []))
            lost += drained.lost
            cursor = drained.cursor
    assert read + lost == written


def test_torn_record_waits_and_is_lost_when_final(tmp_path: Path) -> None:
    writer, reader = make(tmp_path / "a.ring")
    for _ in range(3):
        writer.append(RecordKind.EPOCH_END, **named(RecordKind.EPOCH_END, END))
    struct.pack_into("<q", writer.memory, HEADER_BYTES + SLOT_BYTES + (SLOT_FIELDS - 1) * 8, 0)
    drained = reader.drain(0)
    assert (len(drained.records[RecordKind.EPOCH_END]), drained.cursor) == (1, 1)
    drained = reader.drain(1, final=True)
    assert (len(drained.records[RecordKind.EPOCH_END]), drained.lost) == (1, 1)


def test_muted_writer_changes_nothing(tmp_path: Path) -> None:
    writer, reader = make(tmp_path / "a.ring")
    writer.append(RecordKind.EPOCH_END, **named(RecordKind.EPOCH_END, END))
    writer.set_span(Phase.STEP, 5)
    writer.mute()
    writer.append(RecordKind.EPOCH_END, **named(RecordKind.EPOCH_END, END))
    writer.set_span(Phase.WAIT, 6)
    span = reader.span()
    assert span is not None
    assert (span.phase, reader.pending(0)) == (Phase.STEP, 1)
    writer.close()


@pytest.mark.parametrize("damage", ["empty", "magic", "short"])
def test_damaged_file_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.ring"
    RingWriter(path, IDENTITY, 8).close()
    whole = path.read_bytes()
    path.write_bytes({"empty": b"", "magic": b"x" + whole[1:], "short": whole[:-1]}[damage])
    with pytest.raises(RingError, match=str(path)):
        RingReader(path)


def test_ring_is_never_seen_half_made(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"):
        RingWriter(tmp_path / "missing" / "a.ring", IDENTITY, 8)
    RingWriter(tmp_path / "a.ring", IDENTITY, 8)
    assert [path.name for path in tmp_path.iterdir()] == ["a.ring"]
    size = (tmp_path / "a.ring").stat()
    assert size.st_blocks * 512 >= size.st_size  # allocated, so that a full disk cannot kill the writer later


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="asks Linux who has a file open")
def test_a_ring_gets_its_name_while_nobody_has_it_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows renames no file that is open or mapped. Where space cannot be reserved, it is written full."""
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    seen: list[RingIdentity] = []

    def replace(self: Path, target: Path) -> None:
        assert str(self) not in Path("/proc/self/maps").read_text()
        assert not any(fd.exists() and fd.samefile(self) for fd in Path("/proc/self/fd").iterdir())
        seen.append(RingReader(self).identity)  # as whole as it will ever be
        self.rename(target)

    monkeypatch.setattr(Path, "replace", replace)
    writer = RingWriter(tmp_path / "a.ring", IDENTITY, 8)
    assert seen == [IDENTITY]
    size = (tmp_path / "a.ring").stat()
    assert size.st_blocks * 512 >= size.st_size
    writer.set_span(Phase.WAIT, 5)
    span = RingReader(tmp_path / "a.ring").span()
    assert span is not None
    assert span.since_ns == 5
    writer.close()


def test_a_sample_that_is_being_named_is_unknown(tmp_path: Path) -> None:
    """``pack_into`` clears its place before it writes. That moment must not read as a sample since boot."""
    writer, reader = make(tmp_path / "a.ring")
    writer.set_span(Phase.FETCH, 5)
    writer.set_sample(0, 0)
    span = reader.span()
    assert span is not None
    assert (span.sample_index, span.sample_since_ns) == (UNKNOWN, UNKNOWN)
    writer.set_sample(0, 7)
    span = reader.span()
    assert span is not None
    assert (span.sample_index, span.sample_since_ns) == (0, 7)
    writer.close()


WRITER = """
import sys
from pathlib import Path
from loaderwatch.core.records import RECORD_FIELDS, Phase, RecordKind
from loaderwatch.core.ring import MAIN_CAPACITY, RingIdentity, RingWriter
ring = RingWriter(Path(sys.argv[1]), RingIdentity(1, 1, -1, -1, 0), MAIN_CAPACITY)
number = 0
while True:
    number += 1
    ring.append(RecordKind.EPOCH_END, **dict.fromkeys(RECORD_FIELDS[RecordKind.EPOCH_END], number))
    ring.set_span(Phase.WAIT, number, number, number)
"""


def test_reader_beside_a_writer_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "a.ring"
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], start_new_session=True)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        reader = RingReader(path)
        cursor = 0
        for _ in range(500):
            drained = reader.drain(cursor, limit=MAIN_CAPACITY)
            cursor = drained.cursor
            for row in drained.records.get(RecordKind.EPOCH_END, []):
                assert len(set(row)) == 1
            span = reader.span()
            assert span is None or span.loader == span.epoch == span.since_ns
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=PATIENCE_S)
    last = reader.drain(cursor, final=True)
    assert reader.pending(last.cursor) == 0
