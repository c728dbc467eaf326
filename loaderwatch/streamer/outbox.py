"""Envelopes that wait for the server: files on disk, bounded, each with the ring cursors it covers.

An envelope is on disk before it is sent, and is removed after the state file says that the server has it. So whichever
streamer takes over finds the first unsent record of every ring, and the numbers of a stream never go back. A dropped or
rejected envelope leaves a gap in them: a server needs them to grow, not to be dense.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from loaderwatch.streamer.envelope_file import Covered, count_rows, pack_file, unpack_file
from loaderwatch.streamer.state import StreamState, load_state, save_state, set_aside

log = logging.getLogger(__name__)

DEFAULT_MAX_BYTES: Final = 256 * 2**20
MAX_IN_MEMORY: Final = 8  # envelopes held when the disk cannot be written
MAX_REJECTED: Final = 20  # rejected files kept for a person to look at
SAY_AGAIN_S: Final = 60.0
SUFFIX: Final = ".lwe"


@dataclass(slots=True)
class _Waiting:
    seq: int
    size: int
    covered: Covered
    payload: bytes | None  # only when it could not be written to disk


class Outbox:
    """The queue between the drain loop (``put``) and the upload thread (``oldest``, ``settle``, ``reject``).

    Raises:
        OSError: its folder cannot be made.
    """

    def __init__(
        self, folder: Path, fresh_state: StreamState, current_boot: str | None, max_bytes: int
    ) -> None:
        self.folder = folder
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._waiting: OrderedDict[int, _Waiting] = OrderedDict()
        self._bytes = 0
        self._lost: Counter[int] = Counter()
        self._write_failing = False
        self._highest_seen = 0
        self._drop_said_at = -SAY_AGAIN_S
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.state = self._recover(fresh_state, current_boot)
        newest = next(reversed(self._waiting.values()), None)
        self._next_seq = max(self.state.settled_seq, self._highest_seen) + 1
        self.cursors: dict[str, int] = dict(newest.covered.cursors if newest else self.state.cursors)
        self._save_state()

    # -- the drain loop's side

    @property
    def next_seq(self) -> int:
        """The number the next envelope must carry."""
        return self._next_seq

    def put(self, payload: bytes, cursors: dict[str, int]) -> bool:
        """Take the envelope numbered ``next_seq``; True once it is on disk, False if it is only in memory or was lost."""
        covered = Covered(self.state.stream, self.state.wall_offset_ns, cursors)
        data = pack_file(covered, payload)
        with self._lock:
            seq = self._next_seq
            while self._waiting and self._bytes + len(data) > self._max_bytes:
                self._drop_oldest()
            on_disk = self._write(seq, data)
            if not on_disk and sum(w.payload is not None for w in self._waiting.values()) >= MAX_IN_MEMORY:
                self._lost.update(count_rows(payload))
                return False
            self._waiting[seq] = _Waiting(seq, len(data), covered, None if on_disk else payload)
            self._bytes += len(data)
            self._next_seq = seq + 1
            self._arrived.notify()
        return on_disk

    def take_losses(self) -> Counter[int]:
        """Rows given up since the last call, by rank."""
        with self._lock:
            lost, self._lost = self._lost, Counter()
            return lost

    def remember(self, *, announced: bool | None = None, wall_offset_ns: int | None = None) -> None:
        """Change a fact of the state and save it."""
        with self._lock:
            if announced is not None:
                self.state.announced = announced
            if wall_offset_ns is not None:
                self.state.wall_offset_ns = wall_offset_ns
            self._save_state()

    # -- the upload thread's side

    def __len__(self) -> int:
        with self._lock:
            return len(self._waiting)

    def wait(self, timeout_s: float) -> None:
        """Return when something is waiting, at the latest after ``timeout_s``."""
        with self._arrived:
            if not self._waiting:
                self._arrived.wait(timeout_s)

    def oldest(self) -> tuple[int, bytes] | None:
        """The next envelope to send; one whose file is broken is set aside and passed over."""
        with self._lock:
            while self._waiting:
                entry = next(iter(self._waiting.values()))
                if entry.payload is not None:
                    return entry.seq, entry.payload
                path = self._path(entry.seq)
                try:
                    whole = unpack_file(path.read_bytes())
                except OSError as error:
                    log.warning("%s cannot be read (%s); it is passed over", path, error)
                    whole = None
                else:
                    if whole is not None:
                        return entry.seq, whole[1]
                    log.warning("%s is damaged; set aside as .corrupt", path)
                    set_aside(path)
                self._lost[-1] += 1
                self._settle(entry)
            return None

    def settle(self, seq: int) -> None:
        """The server has this envelope (always the oldest)."""
        with self._lock:
            entry = self._waiting.get(seq)
            if entry is not None:
                self._settle(entry)

    def reject(self, seq: int, payload: bytes) -> None:
        """The server will never take this envelope: keep its file for a person, count its rows, go on."""
        with self._lock:
            entry = self._waiting.get(seq)
            if entry is None:
                return
            self._lost.update(count_rows(payload))
            if entry.payload is None:
                set_aside(self._path(seq), ".rejected")
                for old in sorted(self.folder.glob("*.rejected"))[:-MAX_REJECTED]:
                    old.unlink(missing_ok=True)
            self._settle(entry)

    def close(self) -> None:
        """Remove what is empty: the state goes only when nothing waits, so that a later streamer can go on."""
        with self._lock:
            if self._waiting:
                return
            try:
                (self.folder / "state.json").unlink(missing_ok=True)
                self.folder.rmdir()  # fails, rightly, while files that were set aside lie there
                self.folder.parent.rmdir()
            except OSError:
                pass

    # -- within the lock

    def _path(self, seq: int) -> Path:
        return self.folder / f"{seq:012d}{SUFFIX}"

    def _write(self, seq: int, data: bytes) -> bool:
        path = self._path(seq)
        scratch = path.with_suffix(".new")
        try:
            scratch.write_bytes(data)
            scratch.rename(path)
        except OSError as error:
            if not self._write_failing:
                log.warning("%s cannot be written (%s); envelopes are kept in memory", path, error)
            self._write_failing = True
            with contextlib.suppress(OSError):
                scratch.unlink(missing_ok=True)
            return False
        self._write_failing = False
        return True

    def _drop_oldest(self) -> None:
        entry = next(iter(self._waiting.values()))
        payload = entry.payload
        if payload is None:
            try:
                whole = unpack_file(self._path(entry.seq).read_bytes())
            except OSError:
                whole = None
            payload = whole[1] if whole else b""
        lost = count_rows(payload)
        self._lost.update(lost)
        if time.monotonic() - self._drop_said_at > SAY_AGAIN_S:
            self._drop_said_at = time.monotonic()
            log.warning(
                "outbox is full (%d bytes): dropped envelope %d with %d rows; further ones are counted",
                self._bytes,
                entry.seq,
                lost.total(),
            )
        self._settle(entry)

    def _settle(self, entry: _Waiting) -> None:
        del self._waiting[entry.seq]
        self._bytes -= entry.size
        self.state.settled_seq = entry.seq
        self.state.cursors = entry.covered.cursors
        self._save_state()
        if entry.payload is None:
            try:
                self._path(entry.seq).unlink(missing_ok=True)
            except OSError as error:
                log.warning("%s cannot be removed: %s", self._path(entry.seq), error)

    def _save_state(self) -> None:
        try:
            save_state(self.folder, self.state)
        except OSError as error:
            # Later files still carry their cursors, and removing this one's makes room for the next try.
            log.warning("the streamer's state cannot be saved: %s", error)

    def _recover(self, fresh: StreamState, current_boot: str | None) -> StreamState:
        state = load_state(self.folder)
        for stray in self.folder.glob("*.new"):
            stray.unlink(missing_ok=True)
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            try:
                whole = unpack_file(path.read_bytes()) if path.stem.isdecimal() else None
            except OSError as error:
                log.warning("%s cannot be read (%s); left where it is", path, error)
                continue
            if path.stem.isdecimal():
                self._highest_seen = max(self._highest_seen, int(path.stem))
            if whole is None:
                log.warning("%s is damaged; set aside as .corrupt", path)
                set_aside(path)
                self._lost[-1] += 1
                continue
            covered, seq = whole[0], int(path.stem)
            if state is None:
                fresh.stream, fresh.wall_offset_ns = covered.stream, covered.wall_offset_ns
                state = fresh
            if seq <= state.settled_seq:
                path.unlink(missing_ok=True)  # stored, but its streamer died before it could remove it
                continue
            self._waiting[seq] = _Waiting(seq, path.stat().st_size, covered, None)
            self._bytes += path.stat().st_size
        state = state or fresh
        if state.boot_id != current_boot:  # the host was restarted: its monotonic clock began again
            state.boot_id, state.wall_offset_ns = fresh.boot_id, fresh.wall_offset_ns
        return state
