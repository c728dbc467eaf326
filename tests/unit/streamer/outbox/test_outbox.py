"""The outbox: order, numbers, bounds, what survives a death."""

from __future__ import annotations

from pathlib import Path

import pytest

from loaderwatch.core.facts import HostInfo, Loss
from loaderwatch.core.records import TABLES, pack_row
from loaderwatch.core.wire import MAX_TOGETHER, Envelope, encode, pack_table
from loaderwatch.streamer.outbox import files
from loaderwatch.streamer.outbox import outbox as outbox_module
from loaderwatch.streamer.outbox.files import StreamState
from loaderwatch.streamer.outbox.outbox import Covered, Outbox, count_rows, pack_file, unpack_file
from loaderwatch.texts import say
from tests.faults.mounts import own_mounts


def make(
    folder: Path,
    *,
    boot: str = "boot",
    max_bytes: int = 10**6,
    stream: str = "s",
    spare: Path | None = None,
) -> Outbox:
    """An outbox as a streamer that starts opens it."""
    fresh = StreamState(stream=stream, run_name="run", wall_offset_ns=7, boot_id=boot)
    return Outbox(folder, fresh, boot, max_bytes, spare)


def payload(seq: int, rows: int = 3, rank: int = 0) -> bytes:
    """An envelope with step rows."""
    table = pack_table("steps", [(rank, *range(len(TABLES["steps"]) - 1))] * rows)
    return encode(
        Envelope(
            run_id="r",
            run_name="r",
            stream="s",
            seq=seq,
            made_ns=1,
            host=HostInfo(name="h", cpus=1),
            tables={"steps": table},
        )
    )


def fill(outbox: Outbox, count: int) -> None:
    """Envelopes with the next numbers; each covers a ring up to its number."""
    for _ in range(count):
        seq = outbox.next_seq
        outbox.put(payload(seq), {"ring": seq * 10})


def front(outbox: Outbox) -> tuple[int, bytes] | None:
    """The oldest envelope of the next group, with its number."""
    return next(iter(outbox.together()), None)


def test_in_order_and_gone_when_settled(tmp_path: Path) -> None:
    """First in, first out; the files follow."""
    outbox = make(tmp_path / "o")
    fill(outbox, 3)
    for seq in (1, 2, 3):
        waiting = front(outbox)
        assert waiting is not None
        assert waiting == (seq, payload(seq))
        outbox.settle(seq)
    assert front(outbox) is None
    assert not list(tmp_path.rglob("*.lwe"))
    outbox.close()
    assert not (tmp_path / "o").exists()


def test_a_successor_goes_on_where_the_last_one_was(tmp_path: Path) -> None:
    """Stream, numbers, cursors and the wall offset survive; so does what waits."""
    first = make(tmp_path / "o", stream="one")
    fill(first, 4)
    first.settle(1)
    second = make(tmp_path / "o", stream="two")
    assert second.state.stream == "one"
    assert second.state.wall_offset_ns == 7
    assert second.next_seq == 5
    assert second.cursors == {"ring": 40}
    waiting = front(second)
    assert waiting is not None
    assert waiting[0] == 2


def test_rows_that_are_held_back_go_to_the_successor(tmp_path: Path) -> None:
    """Rows that were read but are in no envelope, after one that waits, was stored or is damaged."""
    row = (0, *range(8))
    first = make(tmp_path / "o")
    first.put(payload(1), {"ring": 10}, [row] * 5)
    assert make(tmp_path / "o").held == [row] * 5
    first.settle(1)
    second = make(tmp_path / "o")
    assert (second.held, second.cursors) == ([row] * 5, {"ring": 10})
    second.put(payload(2), {"ring": 20})
    assert make(tmp_path / "o").held == []
    second.put(payload(3, rows=10), {"ring": 30})
    path = next((tmp_path / "o").glob("*2.lwe"))
    path.write_bytes(path.read_bytes()[:-1])
    assert make(tmp_path / "o").take_losses() == {-1: 10 + 5}


def test_all_sent_and_a_successor_still_counts_on(tmp_path: Path) -> None:
    """Numbers never go back, even with an empty folder."""
    first = make(tmp_path / "o")
    fill(first, 2)
    first.settle(1)
    first.settle(2)
    second = make(tmp_path / "o")
    assert (second.next_seq, second.cursors, len(second)) == (3, {"ring": 20}, 0)


def test_a_death_between_the_receipt_and_the_removal(tmp_path: Path) -> None:
    """The state says it is stored: the file is not sent again."""
    first = make(tmp_path / "o")
    fill(first, 2)
    kept = (tmp_path / "o" / "000000000001.lwe").read_bytes()
    first.settle(1)
    (tmp_path / "o" / "000000000001.lwe").write_bytes(kept)
    second = make(tmp_path / "o")
    waiting = front(second)
    assert waiting is not None
    assert waiting[0] == 2


def test_without_the_state_the_envelopes_tell(tmp_path: Path) -> None:
    """A lost state file costs nothing while an envelope is there."""
    first = make(tmp_path / "o", stream="one")
    fill(first, 3)
    (tmp_path / "o" / "state.json").unlink()
    second = make(tmp_path / "o", stream="two")
    assert (second.state.stream, second.next_seq, second.cursors) == ("one", 4, {"ring": 30})


def test_a_damaged_newest_envelope_is_read_again_from_the_ring(tmp_path: Path) -> None:
    """Its number is not used twice, and its records are still in the ring: the cursor stays before them."""
    first = make(tmp_path / "o")
    fill(first, 3)
    newest = tmp_path / "o" / "000000000003.lwe"
    newest.write_bytes(newest.read_bytes()[:-1])
    second = make(tmp_path / "o")
    assert (second.next_seq, second.cursors) == (4, {"ring": 20})
    assert (tmp_path / "o" / "000000000003.lwe.corrupt").exists()


def test_full_drops_the_oldest_and_counts_their_rows(tmp_path: Path) -> None:
    """Bounded, and every row that falls out is counted by rank."""
    size = len(pack_file(Covered("s", 7, {"ring": 10}), payload(1)))
    outbox = make(tmp_path / "o", max_bytes=3 * size + 20)
    fill(outbox, 5)
    assert len(outbox) == 3
    assert outbox.take_losses() == {0: 6}
    assert outbox.take_losses() == {}
    waiting = front(outbox)
    assert waiting is not None
    assert waiting[0] == 3


def test_what_may_have_been_sent_is_not_dropped(tmp_path: Path) -> None:
    """The server may have it although no answer came: it would be stored and counted as lost."""
    size = len(pack_file(Covered("s", 7, {"ring": 10}), payload(1)))
    outbox = make(tmp_path / "o", max_bytes=3 * size + 20)
    fill(outbox, 1)
    assert front(outbox) == (1, payload(1))
    fill(outbox, 5)
    assert front(outbox) == (1, payload(1))
    assert outbox.take_losses() == {0: 9}
    again = make(tmp_path / "o", max_bytes=3 * size + 20)
    assert front(again) == (1, payload(1))
    again.settle(1)
    assert front(again) == (5, payload(5))
    assert (again.state.settled_seq, again.state.cursors) == (1, {"ring": 10})


def test_losses_survive_a_death_until_an_envelope_reports_them(tmp_path: Path) -> None:
    """Counted once: by the streamer that gave the rows up, or by the one after it."""
    size = len(pack_file(Covered("s", 7, {"ring": 10}), payload(1)))
    bound = 2 * size + 20
    outbox = make(tmp_path / "o", max_bytes=bound)
    fill(outbox, 3)
    successor = make(tmp_path / "o", max_bytes=bound)
    assert successor.take_losses() == {0: 3}
    third = make(tmp_path / "o", max_bytes=bound)  # the second died before its envelope was in a file
    assert third.take_losses() == {0: 3}
    fill(third, 1)  # reports them, and pushes out one more
    fourth = make(tmp_path / "o", max_bytes=bound)
    assert fourth.take_losses() == {0: 3}
    fill(fourth, 1)
    fourth.take_losses()
    while (waiting := front(fourth)) is not None:
        fourth.settle(waiting[0])


def test_a_disk_that_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shared memory takes some envelopes, the rest is counted. Nothing raises; a successor recovers."""
    size = len(pack_file(Covered("s", 7, {"ring": 1}), payload(1)))
    monkeypatch.setattr(files, "MAX_SPARE_BYTES", 4 * size)
    spare = tmp_path / "shm"
    spare.mkdir()
    (tmp_path / "o").write_text("in the way")
    outbox = make(tmp_path / "o", spare=spare)
    (said,) = map(say, outbox.troubles)
    assert str(tmp_path / "o") in said
    assert "Free some space" in said
    for seq in range(1, 5):
        assert outbox.put(payload(seq), {"ring": seq}) is True
    for _ in range(2):
        assert outbox.put(payload(5), {"ring": 6}) is False
    assert len(outbox) == 4
    assert outbox.take_losses() == {0: 6}
    assert front(outbox) == (1, payload(1))
    outbox.settle(1)
    successor = make(tmp_path / "o", spare=spare, stream="another")
    assert (successor.state.stream, successor.next_seq, successor.cursors) == ("s", 5, {"ring": 4})
    assert successor.take_losses() == {0: 6}
    (tmp_path / "o").unlink()
    (tmp_path / "o").mkdir()
    assert successor.put(payload(5), {"ring": 7}) is True
    for seq in range(2, 6):
        assert front(successor) == (seq, payload(seq))
        successor.settle(seq)
    successor.close()
    assert not (tmp_path / "o").exists()
    assert not list(spare.iterdir())


def test_what_could_not_be_removed_is_removed_later(tmp_path: Path) -> None:
    """The disk is read-only for a while: what the server has since taken lies there no longer than that."""
    folder, spare = tmp_path / "o", tmp_path / "shm"
    spare.mkdir()
    with own_mounts() as mounts:
        outbox = make(folder, spare=spare)
        fill(outbox, 3)
        mounts.read_only(folder)
        outbox.settle(2)
        assert len(list(folder.glob("*.lwe"))) == 3
        mounts.writable(folder)
        outbox.settle(3)
        assert not list(folder.glob("*.lwe"))
        outbox.close()
        assert not folder.exists()


def test_a_streamer_starts_on_a_read_only_disk(tmp_path: Path) -> None:
    """Stored envelopes cannot be removed. It neither ends nor sends them again, and keeps its state."""
    folder, spare = tmp_path / "o", tmp_path / "shm"
    spare.mkdir()
    with own_mounts() as mounts:
        outbox = make(folder, spare=spare)
        fill(outbox, 2)
        outbox.settle(1)
        (folder / "000000000001.lwe").write_bytes((folder / "000000000002.lwe").read_bytes())
        (folder / "000000000003.lwe.7.new").write_bytes(b"half")
        mounts.read_only(folder)
        successor = make(folder, spare=spare)
        assert front(successor) == (2, payload(2))
        successor.settle(2)
        successor.close()
        mounts.writable(folder)
        last = make(folder, spare=spare)
        assert len(last) == 0
        assert last.next_seq == 3
        last.close()
        assert not folder.exists()
        assert not list(spare.iterdir())


def test_a_damaged_envelope_counts_what_was_read_for_it(tmp_path: Path) -> None:
    """Its own rows cannot be counted any more: the cursors of its neighbours tell."""
    outbox = make(tmp_path / "o")
    for seq in range(1, 4):
        outbox.put(payload(seq, rows=10), {"ring": seq * 10})
    (tmp_path / "o" / "000000000002.lwe").write_bytes(b"")
    assert make(tmp_path / "o").take_losses() == {-1: 10}
    outbox.settle(1)
    assert front(outbox) == (3, payload(3, rows=10))
    assert outbox.take_losses() == {-1: 10}


def test_rejected_is_kept_and_counted(tmp_path: Path) -> None:
    """A person can look at it."""
    outbox = make(tmp_path / "o")
    fill(outbox, 2)
    outbox.reject(1, payload(1))
    assert outbox.take_losses() == {0: 3}
    assert (tmp_path / "o" / "000000000001.lwe.rejected").exists()
    waiting = front(outbox)
    assert waiting is not None
    assert waiting[0] == 2
    outbox.settle(2)
    outbox.close()
    assert (tmp_path / "o" / "000000000001.lwe.rejected").exists()


def test_after_a_reboot_the_clock_is_another(tmp_path: Path) -> None:
    """Monotonic stamps of two boots have nothing to do with each other."""
    first = make(tmp_path / "o", boot="one")
    first.remember(wall_offset_ns=1)
    fill(first, 1)
    second = make(tmp_path / "o", boot="two")
    assert (second.state.wall_offset_ns, second.state.boot_id) == (7, "two")


def test_rows_that_were_already_lost_are_counted_again() -> None:
    """A dropped envelope takes its report of losses with it."""
    data = encode(
        Envelope(
            run_id="r",
            run_name="r",
            stream="s",
            seq=1,
            made_ns=1,
            host=HostInfo(name="h", cpus=1),
            losses=[Loss(what="ring", rank=2, count=5, t_ns=1)],
            tables={"hosts": pack_table("hosts", [pack_row("hosts", {"t_ns": 1})])},
        )
    )
    assert count_rows(data) == {2: 5, -1: 1}


@pytest.mark.parametrize("cut", [0, 3, 15, 16, 40, -1])
def test_a_file_that_is_not_whole(cut: int) -> None:
    """Any cut is seen."""
    whole = pack_file(Covered("s", 7, {"a": 1}), b"payload")
    assert unpack_file(whole) == (Covered("s", 7, {"a": 1}), b"payload")
    assert unpack_file(whole[:cut]) is None
    assert unpack_file(whole[:-1] + b"!") is None


def test_what_gathered_goes_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many, so many bytes, never less than one; none of them is dropped before the answer is there."""
    outbox = make(tmp_path / "o")
    fill(outbox, MAX_TOGETHER + 3)
    assert [seq for seq, _ in outbox.together()] == list(range(1, MAX_TOGETHER + 1))
    outbox.settle(MAX_TOGETHER)
    assert [seq for seq, _ in outbox.together()] == [MAX_TOGETHER + n for n in (1, 2, 3)]
    size = len(pack_file(Covered("s", 7, {"ring": 10}), payload(1)))
    tight = make(tmp_path / "t", max_bytes=22 * size)  # an eighth of it, two, may go together
    fill(tight, 20)
    assert [seq for seq, _ in tight.together()] == [1, 2]
    fill(tight, 8)
    assert [seq for seq, _ in tight.together()] == [1, 2]
    assert tight.take_losses().keys() == {0}
    monkeypatch.setattr(outbox_module, "TOGETHER_BYTES", size - 1)
    assert [seq for seq, _ in tight.together()] == [1]


def test_a_damaged_file_ends_what_goes_together(tmp_path: Path) -> None:
    """It is passed over once it is the oldest, when it is known what was read before it."""
    outbox = make(tmp_path / "o")
    for seq in range(1, 5):
        outbox.put(payload(seq, rows=10), {"ring": seq * 10})
    (tmp_path / "o" / "000000000003.lwe").write_bytes(b"")
    assert [seq for seq, _ in outbox.together()] == [1, 2]
    assert outbox.take_losses() == {}
    outbox.settle(2)
    assert [seq for seq, _ in outbox.together()] == [4]
    assert outbox.take_losses() == {-1: 10}
