"""The ring folder of a run: its rings, how far each was read, and what happens to broken ones."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from loaderwatch.core.errors import RingError
from loaderwatch.core.ring import RingIdentity, RingReader
from loaderwatch.core.ring.span import OpenSpan
from loaderwatch.streamer.outbox.files import SUFFIX, set_aside

log = logging.getLogger(__name__)

RING: Final = ".ring"
INFO: Final = ".json"
STACK: Final = ".stack"
NOTE: Final = ".overrun"
"""A worker's note about its sample. The training process reads it if the worker was ended for the sample."""
STRAY_S: Final = 60.0
"""A file without a ring that is older than this belongs to a process that died while it created its files."""


@dataclass(slots=True)
class TrackedRing:
    """A ring that is being read."""

    path: Path
    inode: int
    reader: RingReader
    cursor: int
    last_span: OpenSpan | None = None

    @property
    def identity(self) -> RingIdentity:
        """The process that writes the ring."""
        return self.reader.identity

    @property
    def is_main(self) -> bool:
        """Whether a training process, not a worker, writes the ring."""
        return self.identity.worker < 0

    @property
    def key(self) -> str:
        """The ring's name in the cursors. It is not the file name, since a pid may be reused."""
        return f"{self.path.stem}@{self.identity.created_ns}"

    @property
    def stack_path(self) -> Path:
        """The file that the process's faulthandler writes to."""
        return self.path.with_suffix(STACK)

    @property
    def info_path(self) -> Path:
        """The file with the training process's ProcessInfo."""
        return self.path.with_suffix(INFO)

    def span(self) -> OpenSpan | None:
        """Return what the writer is doing; if it is being written at this moment, the last known span."""
        span = self.reader.span()
        if span is not None:
            self.last_span = span
        return self.last_span


class RingFolder:
    """Finds new rings. ``cursors`` say how far an earlier streamer has read.

    Broken files are moved to ``aside``, so that they do not fill shared memory.
    """

    def __init__(self, folder: Path, cursors: dict[str, int], aside: Path) -> None:
        self.folder = folder
        self.aside = aside
        self.rings: dict[Path, TrackedRing] = {}
        self.overwritten = 0  # unread records in rings whose file was replaced
        self._cursors = cursors
        self._seen_mtime_ns = -1
        self._scanned_ns = 0

    def refresh(self, now_ns: int) -> bool:
        """Look for new rings; return True if the folder was listed. Without changes this costs one stat."""
        try:
            mtime_ns = os.stat(self.folder).st_mtime_ns  # noqa: PTH116 - four times a second
        except OSError:
            return False
        # A file made within the same clock tick does not change the folder's time, so list it now and then.
        if mtime_ns == self._seen_mtime_ns and now_ns - self._scanned_ns < 2_000_000_000:
            return False
        self._seen_mtime_ns, self._scanned_ns = mtime_ns, now_ns
        try:
            with os.scandir(self.folder) as entries:
                files = [(Path(e.path), e.inode()) for e in entries if e.name.endswith(RING)]
        except OSError as error:
            log.warning("%s cannot be listed: %s", self.folder, error)
            return False
        for path, inode in files:
            known = self.rings.get(path)
            if known is None or known.inode != inode:
                self._open(path, inode)
        return True

    def forget(self, ring: TrackedRing) -> None:
        """Stop reading a ring and remove its files, once its last records are safe in the outbox."""
        ring.reader.close()
        if self.rings.get(ring.path) is ring:
            del self.rings[ring.path]
            notes = self.folder.glob(f"worker-{ring.identity.pid}-*{NOTE}") if ring.is_main else ()
            for path in (ring.path, ring.stack_path, ring.info_path, *notes):
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:
                    log.warning("%s cannot be removed: %s", path, error)

    def cursors(self) -> dict[str, int]:
        """Return how far each ring was read."""
        return {ring.key: ring.cursor for ring in self.rings.values()}

    def remove(self) -> None:
        """Remove the folder at the end of the run, unless a new process of the run starts there."""
        for ring in list(self.rings.values()):
            self.forget(ring)
        long_ago = time.time() - STRAY_S
        try:
            files = list(self.folder.iterdir())
            strays = [path for path in files if path.suffix != ".lock"]
            if any(path.suffix == SUFFIX or path.stat().st_mtime > long_ago for path in strays):
                return  # an envelope waits here for the server, or a new process of the run starts
            for path in files:
                path.unlink(missing_ok=True)
            self.folder.rmdir()  # fails, as intended, if a new file came meanwhile
        except OSError as error:
            log.info("%s stays: %s", self.folder, error)

    def _open(self, path: Path, inode: int) -> None:
        try:
            reader = RingReader(path)
        except RingError as error:
            log.warning("%s", error)
            set_aside(path, folder=self.aside)
            return
        except (OSError, ValueError) as error:  # ValueError: mmap of an empty file
            log.warning("%s cannot be opened: %s", path, error)
            return
        ring = TrackedRing(path, inode, reader, 0)
        ring.cursor = self._cursors.get(ring.key, 0)
        old = self.rings.get(path)
        if old is not None:
            self.overwritten += old.reader.pending(old.cursor)
            old.reader.close()
        self.rings[path] = ring
