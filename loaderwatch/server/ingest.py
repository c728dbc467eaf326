"""Ingest: it decodes and gathers envelopes, commits them in groups to the store and acknowledges them."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from loaderwatch.core import wire
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.wire import Envelope
from loaderwatch.server.store.protocol import Behind, Store, StoreError
from loaderwatch.server.times import in_time

_log: Final = logging.getLogger(__name__)

DECODE_INLINE_BYTES: Final = 256 * 1024
"""Smaller payloads are decoded on the event loop, because a thread would take longer. Larger payloads are
decoded in a thread, one at a time: the worst 8 MiB take 400 MB."""
_ITEM_BYTES: Final = 600  # memory of a process, loader, span or similar item

TIDY_EVERY_S: Final = 1.0
MAX_UNKNOWN_SAID: Final = 100
MOST_WAITING_BYTES: Final = 256 * 2**20
"""Memory of envelopes that wait for the disk. With a quarter of it, four thousand ranks, whose commits take a
second, were asked to retry so often that the retries were most of the work and never decreased."""
REST: Final = 6.0
"""Pause after a commit, in durations of that commit. Half of the cost of a thousand ranks' commit does not
depend on the number of rows, so many small commits a second are the most expensive way to store."""
MOST_REST_S: Final = 0.35
"""Such a pause is never longer, so that a step appears on the page as soon as before."""


@dataclass(slots=True)
class IngestCounts:
    """Counts of the requests that came in since the server's start."""

    accepted: int = 0
    bytes: int = 0
    rejected: int = 0
    too_large: int = 0
    busy: int = 0
    open: int = 0
    reading_bytes: int = 0


class Busy(LoaderwatchError):
    """Too many envelopes wait for the disk; the sender may try again after ``retry_after_s``."""

    def __init__(self, waiting_bytes: int, retry_after_s: float) -> None:
        super().__init__(f"{waiting_bytes} bytes wait to be stored; try again in {retry_after_s:g} s")
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class _Waiting:
    envelope: Envelope
    size: int
    done: asyncio.Future[int]


class Ingest:
    """Stores envelopes through a single writer thread.

    An envelope that comes alone is committed at once. Envelopes go into the next commit if they arrive during
    a commit, within ``commit_interval_s`` of its start, or in the pause after a long one. Create the object
    and call ``start`` and ``submit`` on the event loop's thread; ``await stop()`` commits what is waiting.
    """

    def __init__(
        self,
        store: Store,
        *,
        commit_interval_s: float = 0.1,
        max_waiting_bytes: int = MOST_WAITING_BYTES,
        admit: Callable[[Envelope, int], None] | None = None,
    ) -> None:
        """Make an ingest. ``admit(envelope, bytes)`` raises if the sender is over its share."""
        self._store = store
        self._admit = admit
        self._commit_interval_s = commit_interval_s
        self._max_waiting_bytes = max_waiting_bytes
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._waiting_bytes = 0
        self._callbacks: list[Callable[[Envelope, int], None]] = []
        self._on_refused: list[Callable[[str, str], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._unknown_said: set[str] = set()
        self._decoding = asyncio.Semaphore(1)  # for large payloads

    @property
    def waiting_bytes(self) -> int:
        """About how much memory the envelopes take that are not yet on disk."""
        return self._waiting_bytes

    def start(self) -> None:
        """Start the writer thread."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._write, name="loaderwatch-writer", daemon=True)
        self._thread.start()

    def on_stored(self, callback: Callable[[Envelope, int], None]) -> None:
        """Call ``callback(envelope, bytes of memory)`` for each envelope on disk, before its acknowledgement.

        The callback runs on the event loop, once per envelope.
        """
        self._callbacks.append(callback)

    def on_refused(self, callback: Callable[[str, str], None]) -> None:
        """Call ``callback(run_id, reason)`` on the event loop if envelopes of a run could not be stored."""
        self._on_refused.append(callback)

    async def submit(self, payloads: Sequence[bytes]) -> tuple[Envelope, int]:
        """Store envelopes of a stream in order; return the first and the stream's highest number on disk.

        A refused envelope does not prevent the storing of the others. The first refusal is raised.

        Raises:
            WireError: a payload is malformed (400).
            Busy: too much is waiting (429).
            StoreError: disk or file refuses, or the server is stopping (503).
        """
        together = sum(map(len, payloads))
        queued: list[tuple[Envelope, asyncio.Future[int]]] = []
        refusal: LoaderwatchError | None = None
        for payload in payloads:
            try:
                queued.append(await self._queued(payload, together))
            except LoaderwatchError as error:
                refusal = refusal or error
        seq = 0
        for _, done in queued:
            try:
                # If the sender hangs up, the envelope is still written and counts against the limit.
                seq = await asyncio.shield(done)
            except LoaderwatchError as error:
                refusal = refusal or error
        if refusal is not None:
            raise refusal
        return queued[0][0], seq

    async def _queued(self, payload: bytes, together: int) -> tuple[Envelope, asyncio.Future[int]]:
        """Pass a payload to the writer; return its envelope and a future for the stream's sequence number."""
        if self._thread is None or self._loop is None:
            raise StoreError("the server is stopping; send it again later")
        if self._waiting_bytes + len(payload) > self._max_waiting_bytes:
            raise Busy(self._waiting_bytes, 1.0)
        size = len(payload)
        self._waiting_bytes += size
        try:
            unknown: set[str] = set()
            envelope = await self._decode(payload, together, unknown)
            others = self._waiting_bytes - size
            size += _ITEM_BYTES * wire.item_count(envelope)
            self._waiting_bytes = others + size
            if others and self._waiting_bytes > self._max_waiting_bytes:
                raise Busy(others, 1.0)
            if unknown:
                self._say_unknown(unknown, envelope)
            if self._admit is not None:
                self._admit(envelope, len(payload))
            envelope = in_time(envelope)
            if self._thread is None:
                raise StoreError("the server is stopping; send it again later")
        except BaseException:
            self._waiting_bytes -= size
            raise
        done: asyncio.Future[int] = self._loop.create_future()
        done.add_done_callback(_look_at)
        self._queue.put(_Waiting(envelope, size, done))
        return envelope, done

    async def _decode(self, payload: bytes, together: int, unknown: set[str]) -> Envelope:
        """Decode a payload of a request of ``together`` bytes; for a large request in a thread, in order."""
        if together <= DECODE_INLINE_BYTES:
            return wire.decode(payload, unknown)
        async with self._decoding:
            return await asyncio.to_thread(wire.decode, payload, unknown)

    async def stop(self) -> None:
        """Commit what is waiting and end the writer thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            await asyncio.to_thread(thread.join)
            await asyncio.sleep(0)  # let the loop process the last results

    def _say_unknown(self, unknown: set[str], envelope: Envelope) -> None:
        fresh = unknown - self._unknown_said
        # the sender chooses the names, so they must not fill memory or log
        if fresh and len(self._unknown_said) < MAX_UNKNOWN_SAID:
            self._unknown_said |= fresh
            _log.warning(
                "host %.80r of run %s sends what this version does not know, and it is not stored: %s."
                " All else is. To have it, upgrade loaderwatch here and start this server again",
                envelope.host.name,
                envelope.run_id,
                ", ".join(map(ascii, sorted(fresh)[:MAX_UNKNOWN_SAID])),
            )

    # -- the writer thread

    def _write(self) -> None:
        running = True
        next_tidy_s = time.monotonic() + TIDY_EVERY_S
        while running:
            try:
                first = self._queue.get(timeout=max(0.0, next_tidy_s - time.monotonic()))
            except queue.Empty:
                first = None
            else:
                running = first is not None
            began_s = time.monotonic()
            if first is not None:
                group = [first]
                running = self._gather(group)
                self._commit(group)
            committed_s = time.monotonic()
            if time.monotonic() >= next_tidy_s:
                self._tidy()
                next_tidy_s = time.monotonic() + TIDY_EVERY_S
            ended_s = time.monotonic()
            rest_s = min(MOST_REST_S, REST * (committed_s - began_s))
            pause_s = max(began_s + self._commit_interval_s, committed_s + rest_s) - ended_s
            if running and first is not None and pause_s > 0:
                time.sleep(pause_s)

    def _gather(self, group: list[_Waiting]) -> bool:
        while True:
            try:
                waiting = self._queue.get_nowait()
            except queue.Empty:
                return True
            if waiting is None:
                return False
            group.append(waiting)

    def _commit(self, group: Sequence[_Waiting]) -> None:
        by_run: dict[str, list[_Waiting]] = {}
        for waiting in group:
            by_run.setdefault(waiting.envelope.run_id, []).append(waiting)
        for members in by_run.values():
            error: LoaderwatchError | None = None
            stored: list[Envelope] = []
            try:
                stored = self._store.append([m.envelope for m in members])
                seqs = [self._store.stored_seq(m.envelope.run_id, m.envelope.stream) for m in members]
            except LoaderwatchError as refused:
                error, seqs = refused, []
                _log.log(
                    logging.WARNING if isinstance(refused, Behind) else logging.ERROR,
                    "%d envelopes of run %s not stored: %s",
                    len(members),
                    members[0].envelope.run_id,
                    refused,
                )
            except Exception as fault:  # noqa: BLE001 - the writer thread must survive; senders get the error
                error, seqs = StoreError(f"not stored: {fault!r}"), []
                _log.exception("envelopes of run %s not stored", members[0].envelope.run_id)
            assert self._loop is not None
            try:
                self._loop.call_soon_threadsafe(self._resolve, members, stored, seqs, error)
            except RuntimeError:
                return  # the loop is closed, so no sender is left

    def _resolve(
        self,
        members: Sequence[_Waiting],
        stored: Sequence[Envelope],
        seqs: Sequence[int],
        error: LoaderwatchError | None,
    ) -> None:
        weights = {id(waiting.envelope): waiting.size for waiting in members}
        for envelope in stored:
            for callback in self._callbacks:
                try:
                    callback(envelope, weights[id(envelope)])
                except Exception:  # noqa: BLE001 - the envelope is on disk: acknowledge it
                    _log.exception("a listener failed on an envelope of run %s", envelope.run_id)
        if error is not None:
            for refused in self._on_refused:
                refused(members[0].envelope.run_id, str(error))
        for index, waiting in enumerate(members):
            self._waiting_bytes -= waiting.size
            if waiting.done.done():
                continue
            if error is not None:
                waiting.done.set_exception(error)
            else:
                waiting.done.set_result(seqs[index])

    def _tidy(self) -> None:
        try:
            self._store.tidy()
        except LoaderwatchError as error:
            _log.error("housekeeping failed: %s", error)
        except Exception:  # noqa: BLE001 - housekeeping is tried again in a second; storing must go on
            _log.exception("housekeeping failed")


def _look_at(done: asyncio.Future[int]) -> None:
    """Retrieve an error that no caller awaits any more, so that asyncio does not report it."""
    if not done.cancelled():
        done.exception()
