"""Who is there, who has died, whose ring may go, and what becomes of records; over real rings."""

from __future__ import annotations

import os
import subprocess
import time
from array import array
from pathlib import Path

import pytest

from loaderwatch.core.records import RECORD_FIELDS, UNKNOWN, Phase, RecordKind
from loaderwatch.core.ring import MAIN_CAPACITY, RingIdentity, RingStatus, RingWriter
from loaderwatch.streamer.drain import MAX_ROWS_PER_ENVELOPE, Drain, build_span
from loaderwatch.streamer.rings import RingFolder
from loaderwatch.streamer.roster import DEAD_WORKER_HELD_NS, Roster
from tests.fakes.ring_writer import open_rings, write_step

SECOND = 10**9
pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A ring folder."""
    return tmp_path / "rings"


def make(folder: Path, cursors: dict[str, int] | None = None) -> Roster:
    """A roster that has looked once."""
    roster = Roster(RingFolder(folder, cursors or {}, folder.parent / "aside"))
    roster.refresh(time.monotonic_ns())
    return roster


def dead_pid() -> int:
    """The pid of a process that has ended."""
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def batches(drain: Drain) -> list[int]:
    """The batch column of what was drained."""
    tables, _ = drain.take(1)
    return list(array("q", tables["steps"]["batch"])) if tables else []


def test_rows_carry_rank_and_utc(folder: Path) -> None:
    """The rank comes from the description; unknown stamps stay unknown."""
    ring = open_rings(folder, rank=3, workers=0)[0]
    before = time.monotonic_ns()
    write_step(ring, 5)
    after = time.monotonic_ns()
    fields = dict.fromkeys(RECORD_FIELDS[RecordKind.STEP], 1)
    ring.append(RecordKind.STEP, **{**fields, "request_ns": UNKNOWN})
    drain = Drain(wall_offset_ns=10**18)
    drain.collect(make(folder), time.monotonic_ns())
    tables, losses = drain.take(1)
    assert losses == []
    assert list(array("q", tables["steps"]["rank"])) == [3, 3]
    first, second = array("q", tables["steps"]["request_ns"])
    assert before <= first - 10**18 <= after
    assert second == UNKNOWN


def test_a_backlog_goes_out_in_parts(folder: Path) -> None:
    """No envelope grows beyond its bound, and nothing is skipped between two."""
    rings = [open_rings(folder, rank=rank, workers=0, pid=os.getpid() + rank)[0] for rank in range(4)]
    for ring in rings:
        for batch in range(7000):
            write_step(ring, batch)
    roster, drain = make(folder), Drain(0)
    counts = []
    while True:
        drain.collect(roster, time.monotonic_ns())
        got = batches(drain)
        if not got:
            break
        counts.append(len(got))
    assert sum(counts) == 28_000
    assert counts[0] == MAX_ROWS_PER_ENVELOPE


def test_an_overrun_is_counted(folder: Path) -> None:
    """What was overwritten before it was read is a loss of that rank, with the one that may be about to."""
    ring = open_rings(folder, rank=2, workers=0)[0]
    for batch in range(MAIN_CAPACITY + 100):
        write_step(ring, batch)
    drain = Drain(0)
    drain.collect(make(folder), time.monotonic_ns())
    _, losses = drain.take(5)
    assert [(loss.what, loss.rank, loss.count, loss.t_ns) for loss in losses] == [("ring", 2, 101, 5)]


def test_cursors_of_an_earlier_streamer_hold(folder: Path) -> None:
    """Read up to 3: 4 is next. A ring that came later with the same name begins at its first record."""
    ring = open_rings(folder, rank=0, workers=0)[0]
    for batch in range(6):
        write_step(ring, batch)
    first = make(folder)
    first_drain = Drain(0)
    first_drain.collect(first, time.monotonic_ns())
    cursors = dict.fromkeys(first.folder.cursors(), 3)
    second, drain = make(folder, cursors), Drain(0)
    drain.collect(second, time.monotonic_ns())
    assert batches(drain) == [3, 4, 5]
    again = open_rings(folder, rank=0, workers=0)[0]
    write_step(again, 77)
    second.refresh(time.monotonic_ns() + 10 * SECOND)
    drain.collect(second, time.monotonic_ns())
    assert batches(drain) == [77]


def test_records_nobody_can_place_are_counted(folder: Path) -> None:
    """A process that died before it said its rank."""
    ring = open_rings(folder, rank=0, workers=0, pid=dead_pid())[0]
    next(folder.glob("*.json")).write_text("{broken")
    write_step(ring, 0)
    roster, drain = make(folder), Drain(0)
    now = time.monotonic_ns()
    drain.collect(roster, now)
    assert drain.take(1) == ({}, [])
    drain.collect(roster, now + 6 * SECOND)
    assert [(loss.rank, loss.count) for loss in drain.take(1)[1]] == [(-1, 1)]
    assert [path.name for path in (folder.parent / "aside").iterdir()] == [
        f"main-{ring.path.stem[5:]}.json.corrupt"
    ]


def test_a_pid_that_is_anothers_by_now_is_dead(folder: Path) -> None:
    """The ring was made long before the process with its pid began."""
    child = subprocess.Popen(["sleep", "60"])
    try:
        open_rings(folder, rank=0, workers=0, pid=child.pid)
        path = folder / f"main-{child.pid}.ring"
        path.unlink()
        RingWriter(path, RingIdentity(child.pid, child.pid, -1, -1, time.monotonic_ns() - 3600 * SECOND), 64)
        roster = make(folder)
        assert roster.all_dead()
    finally:
        child.kill()
        child.wait()


def test_a_workers_faults_are_told_with_its_rank_and_stay(folder: Path) -> None:
    """A worker that went takes nothing with it."""
    main, worker, _ = open_rings(folder, rank=0, workers=2)
    main.set_status(RingStatus(False, 0, 1, False))
    worker.set_status(RingStatus(False, 0, 2, True))
    roster = make(folder)
    assert [(p.faults, p.tripped) for p in roster.describe()] == [(3, False)]
    worker.set_status(RingStatus(True, 0, 2, True))
    for member in roster.workers:
        member.drained = True
    roster.retire(time.monotonic_ns())
    assert len(roster.workers) < 2
    assert [(p.faults, p.tripped) for p in roster.describe()] == [(3, False)]


def test_finished_and_crashed(folder: Path) -> None:
    """The goodbye in the ring tells; the newest process of a rank speaks for it."""
    old = open_rings(folder, rank=0, workers=0, pid=dead_pid())[0]
    new = open_rings(folder, rank=0, workers=0, pid=dead_pid())[0]
    new.set_status(RingStatus(True, 0, 3, True))
    roster = make(folder)
    assert [(p.pid, p.state, p.faults, p.tripped) for p in roster.describe()] == [
        (int(new.path.stem[5:]), "finished", 3, True)
    ]
    drain = Drain(0)
    drain.collect(roster, time.monotonic_ns())
    for member in roster.members():
        member.drained = member.final_cursor is not None
    roster.retire(time.monotonic_ns())
    assert not old.path.exists()
    assert new.path.exists()


def test_the_end_removes_the_folder_but_not_under_a_newcomer(folder: Path) -> None:
    """A second run of the same name may be making its ring at this moment."""
    open_rings(folder, rank=0, workers=0, pid=dead_pid())
    (folder / "streamer.lock").touch()
    coming = folder / "main-7.ring.new"
    coming.touch()
    roster = make(folder)
    roster.folder.remove()
    assert {path.name for path in folder.iterdir()} == {"streamer.lock", "main-7.ring.new"}
    os.utime(coming, (1, 1))
    roster.folder.remove()
    assert not folder.exists()


@pytest.mark.parametrize("left", [(Phase.OUTSIDE, 2**62), (Phase.STEP, 2**62, 1)])
@pytest.mark.parametrize("finished", [True, False])
def test_a_dead_workers_ring_goes_unless_it_is_waited_for(
    folder: Path, finished: bool, left: tuple[int, ...]
) -> None:
    """One that said goodbye goes at once; one that was killed stays while training may wait for it."""
    main = open_rings(folder, rank=0, workers=0)[0]
    pid = dead_pid()
    now = time.monotonic_ns()
    path = folder / f"worker-{os.getpid()}-0-1-{pid}.ring"
    worker = RingWriter(path, RingIdentity(pid, os.getpid(), 0, 1, now), 64)
    worker.set_status(RingStatus(finished, 0, 0, False))
    worker.set_span(Phase.FETCH, now, sample_index=4, sample_since_ns=now)
    main.set_span(Phase.WAIT, now, loader=0)
    roster = make(folder)
    drain = Drain(0)
    drain.collect(roster, now)
    member = roster.workers[0]
    assert not member.alive
    span = build_span(member, roster, 0, None)
    assert span is not None
    assert (span.alive, span.worker, span.sample_index, span.phase) == (False, 1, 4, "fetch")
    member.drained = member.final_cursor is not None
    roster.retire(member.died_ns + 1)
    assert path.exists() is not finished
    if finished:
        return
    roster.retire(member.died_ns + 100 * DEAD_WORKER_HELD_NS)
    assert path.exists()  # the same wait still
    main.set_span(Phase.STEP, member.died_ns + 1, loader=0)
    roster.retire(member.died_ns + 100 * DEAD_WORKER_HELD_NS)
    assert path.exists()  # a step with a batch that was read ahead: the wait for this worker is to come
    main.set_span(*left)
    roster.retire(member.died_ns + DEAD_WORKER_HELD_NS - 1)
    assert path.exists()
    roster.retire(member.died_ns + DEAD_WORKER_HELD_NS + 1)
    assert not path.exists()
    assert roster.workers == []
