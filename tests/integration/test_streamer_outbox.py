"""What the streamer does while the server is away, refuses, or files are broken: nothing is lost silently."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from loaderwatch.core.wire import row_count
from tests.fakes.receiver import Receiver
from tests.fakes.streaming import Streaming, kill, wait_for
from tests.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc"),
]


def _outbox(it: Streaming) -> list[Path]:
    return sorted(it.settings.outbox_dir.rglob("*.lwe"))


def test_a_server_that_was_away_gets_everything(data_dir: Path, free_port: int) -> None:
    """Envelopes wait on disk and go out in order, over a change of streamers too."""
    with Streaming(data_dir, f"http://127.0.0.1:{free_port}") as it:
        trainee = it.write(period_s=0.005)
        first = it.stream()
        wait_for(lambda: len(_outbox(it)) >= 4)
        kill(first.pid)
        first.wait(PATIENCE_S)
        second = it.stream()
        wait_for(lambda: len(_outbox(it)) >= 8)
        with Receiver(free_port) as receiver:
            receiver.wait_for(lambda: len(receiver.envelopes) >= 10)
            os.kill(trainee.pid, signal.SIGKILL)
            trainee.wait(PATIENCE_S)
            assert second.wait(PATIENCE_S) == 0
            batches = receiver.column("steps", "batch")
            assert batches == list(range(len(batches)))
            assert [e.seq for e in receiver.in_order()] == list(range(1, len(receiver.envelopes) + 1))
            assert not _outbox(it)


def test_what_could_not_be_sent_is_sent_by_the_next_run(data_dir: Path, free_port: int) -> None:
    """A host that went down left envelopes; another run's streamer has them sent."""
    url = f"http://127.0.0.1:{free_port}"
    with Streaming(data_dir, url, run_id="old") as old:
        trainee = old.write(period_s=0.005)
        old.stream()
        wait_for(lambda: len(_outbox(old)) >= 3)
        old.end_streamers()
        kill(trainee.pid)
        for path in old.folder.iterdir():  # shared memory does not outlive a reboot
            path.unlink()
        old.folder.rmdir()
        waiting = len(_outbox(old))
    with Receiver(free_port) as receiver, Streaming(data_dir, url, run_id="new") as new:
        new.write(steps=20, period_s=0.01, finish=True)
        assert new.stream().wait(PATIENCE_S) == 0
        receiver.wait_for(lambda: sum(e.run_id == "old" for e in receiver.in_order()) >= waiting)
        wait_for(lambda: not new.streamer_pids())
        assert not _outbox(new)


def test_rings_that_nobody_reads_are_adopted_by_the_next_run(data_dir: Path) -> None:
    """All streamers of a run were killed, then its training ended: its last records are sent all the same."""
    with Receiver() as receiver:
        with Streaming(data_dir, receiver.url, run_id="old") as old:
            trainee = old.write(steps=300, hang=3600)
            assert trainee.stdout is not None
            assert trainee.stdout.readline() == "written\n"
        with Streaming(data_dir, receiver.url, run_id="new") as new:
            new.write(steps=20, period_s=0.01, finish=True)
            assert new.stream().wait(PATIENCE_S) == 0
            wait_for(lambda: not new.streamer_pids())
        rows = sum(
            row_count(e.tables["steps"])
            for e in receiver.in_order()
            if e.run_id == "old" and "steps" in e.tables
        )
        assert rows == 300
        states = {p.state for e in receiver.in_order() if e.run_id == "old" for p in e.processes}
        assert states == {"crashed"}
        assert not old.folder.exists()


def test_a_full_outbox_drops_the_oldest_and_says_how_many(data_dir: Path, free_port: int) -> None:
    """Every step is either received or counted."""
    with Streaming(data_dir, f"http://127.0.0.1:{free_port}", LOADERWATCH_OUTBOX_BYTES="60000") as it:
        trainee = it.write(period_s=0.002)
        streamer = it.stream()
        wait_for(lambda: "outbox is full" in it.log())
        sizes = []
        for path in _outbox(it):
            with suppress(FileNotFoundError):  # dropped since they were listed
                sizes.append(path.stat().st_size)
        assert sum(sizes[1:]) <= 60_000  # the oldest stays: it may have been sent
        with Receiver(free_port) as receiver:
            receiver.wait_for(lambda: receiver.lost("outbox") > 0)
            os.kill(trainee.pid, signal.SIGKILL)
            trainee.wait(PATIENCE_S)
            assert streamer.wait(PATIENCE_S) == 0
            batches = receiver.column("steps", "batch")
            lost_steps = sum(
                loss.count
                for e in receiver.in_order()
                for loss in e.losses
                if loss.what == "outbox" and loss.rank == 0
            )
            missing = batches[-1] + 1 - len(batches)
            assert missing > 0
            # The count also holds the rank's rows of the table "processes".
            assert missing <= lost_steps <= missing + 30
            assert batches == sorted(set(batches))


def test_broken_files_are_set_aside(data_dir: Path, free_port: int) -> None:
    """An invalid ring, a truncated envelope and a broken state file are named, kept and skipped."""
    with Streaming(data_dir, f"http://127.0.0.1:{free_port}") as it:
        trainee = it.write(period_s=0.01)
        (it.folder / "main-1.ring").write_bytes(b"not a ring at all")
        (it.folder / "main-2.ring").write_bytes(b"")
        first = it.stream()
        wait_for(lambda: len(_outbox(it)) >= 5)
        it.end_streamers()
        first.wait(PATIENCE_S)
        third = _outbox(it)[2]
        third.write_bytes(third.read_bytes()[:-7])
        (third.parent / "state.json").write_text("{")
        second = it.stream()
        with Receiver(free_port) as receiver:
            receiver.wait_for(lambda: len(receiver.envelopes) >= 8)
            os.kill(trainee.pid, signal.SIGKILL)
            trainee.wait(PATIENCE_S)
            assert second.wait(PATIENCE_S) == 0
            seqs = [e.seq for e in receiver.in_order()]
            assert seqs == [seq for seq in range(1, seqs[-1] + 1) if seq != 3]
            assert len({stream for stream, _ in receiver.envelopes}) == 1
            assert receiver.lost("outbox") >= 1
        assert {path.name for path in third.parent.iterdir()} == {
            third.name + ".corrupt",
            "state.json.corrupt",
        }
        aside = {path.name for path in (data_dir / "set-aside" / "run1").iterdir()}
        assert aside == {"main-1.ring.corrupt", "main-2.ring.corrupt"}
        wait_for(lambda: not it.folder.exists())  # the standby leaves too
        for name in ("main-1.ring", third.name, "state.json"):
            assert name in it.log()


def test_a_rejected_envelope_is_kept_counted_and_passed_over(data_dir: Path) -> None:
    """400 is about one envelope; the rest of the run must not wait behind it."""
    rejection: tuple[int, bytes, dict[str, str]] = (
        400,
        json.dumps({"error": "no", "field": "tables.steps"}).encode(),
        {},
    )
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        receiver.answer = lambda post: rejection if post == 2 else None
        it.write(period_s=0.01)
        it.stream()
        receiver.wait_for(lambda: receiver.lost("outbox") > 0)
        seqs = [e.seq for e in receiver.in_order()]
        assert 2 not in seqs
        assert [path.name for path in it.settings.outbox_dir.rglob("*.rejected")] == [
            "000000000002.lwe.rejected"
        ]
        assert "tables.steps" in it.log()


def test_a_busy_server_is_asked_again_and_a_wrong_token_is_said_once(data_dir: Path) -> None:
    """429, 503 and 401 lose nothing."""
    answers: dict[int, tuple[int, bytes, dict[str, str]]] = {
        1: (503, b"", {}),
        2: (429, b"", {"Retry-After": "0.2"}),
        3: (401, b'{"error": "wrong token"}', {}),
        4: (401, b'{"error": "wrong token"}', {}),
        5: (404, b"not here", {}),
    }
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        receiver.answer = answers.get
        trainee = it.write(steps=60, period_s=0.01, hang=3600)
        it.stream()
        # After a 404 the streamer waits for half a minute, so it is the last answer here.
        receiver.wait_for(lambda: len(receiver.tokens) >= 5)
        assert not receiver.envelopes
        assert [path.name for path in it.settings.outbox_dir.rglob("*.rejected")] == []
        kill(trainee.pid)
        trainee.wait(PATIENCE_S)
        assert trainee.stderr is not None
        said = [line for line in trainee.stderr.read().splitlines() if "refuses" in line]
        assert len(said) == 1
        assert "LOADERWATCH_TOKEN" in said[0]


def test_a_server_that_was_never_there_is_said_once(data_dir: Path, free_port: int) -> None:
    """A mistyped address: the job's stderr names it, and does not invite anybody to open it."""
    with Streaming(data_dir, f"http://127.0.0.1:{free_port}") as it:
        trainee = it.write()
        it.stream()
        wait_for(lambda: len(_outbox(it)) > 32, 60)  # 16 s: tries are up to 8 s apart then
        kill(trainee.pid)
        trainee.wait(PATIENCE_S)
        assert trainee.stderr is not None
        (said,) = trainee.stderr.read().splitlines()
        assert f"http://127.0.0.1:{free_port} cannot be reached" in said
        assert "check LOADERWATCH_SERVER" in said


def test_a_rejected_envelope_is_said_once(data_dir: Path) -> None:
    """An older server that does not know a column: the page lacks it, so a person must know."""
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        answer = b'{"error": "no such column in this version", "field": "tables.steps.x"}'
        receiver.answer = lambda number: (400, answer, {}) if number < 4 else None
        trainee = it.write()
        it.stream()
        receiver.wait_for(lambda: len(receiver.in_order()) > 3)
        kill(trainee.pid)
        trainee.wait(PATIENCE_S)
        assert trainee.stderr is not None
        said = [line for line in trainee.stderr.read().splitlines() if "no such column" in line]
        assert len(said) == 1
        assert "restart it" in said[0]


def test_a_page_that_cannot_be_started_is_said(data_dir: Path) -> None:
    """Damaged tokens: the server names the file and ends, and the job's stderr repeats it."""
    data_dir.mkdir(exist_ok=True)
    with Streaming(data_dir, None) as it:
        it.settings.token_path.write_bytes(b"\xff damaged")
        trainee = it.write()
        it.stream()
        wait_for(lambda: "ended with exit code" in it.log())
        assert trainee.stderr is not None
        said = trainee.stderr.readline()
        kept = len(_outbox(it))
        wait_for(lambda: len(_outbox(it)) > kept + 5)
        kill(trainee.pid)
        trainee.wait(PATIENCE_S)
        assert trainee.stderr.read() == "", "it is said once"
        assert "the page cannot be started" in said
        assert str(it.settings.token_path) in said


def test_what_the_last_envelopes_pushed_out_is_counted_too(data_dir: Path, free_port: int) -> None:
    """The run ends while the server is away and the outbox is full: no later envelope could report it."""
    with Streaming(data_dir, f"http://127.0.0.1:{free_port}", LOADERWATCH_OUTBOX_BYTES="1") as it:
        trainee = it.write(steps=400, period_s=0.005, finish=True)
        streamer = it.stream()
        trainee.wait(PATIENCE_S)
        wait_for(lambda: "outbox is full" in it.log())
        time.sleep(4)  # its last envelope has been made
        with Receiver(free_port) as receiver:
            assert streamer.wait(PATIENCE_S) == 0
            arrived = len(receiver.column("steps", "batch"))
            counted = sum(e.count for env in receiver.in_order() for e in env.losses if e.rank == 0)
        assert arrived < 400
        assert 400 <= arrived + counted <= 400 + 20  # with the rank's rows of "processes"
