"""The outbox's files: envelopes, and the state that must survive a streamer's death."""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
import socket
import time
import uuid
from collections import deque
from pathlib import Path
from typing import Final

import msgspec

from loaderwatch.core.config import Settings
from loaderwatch.core.files import DRAFT, free_path, private_folder, read_own, write_atomically
from loaderwatch.core.message import Param, Text
from loaderwatch.core.wire import decode_json

log = logging.getLogger(__name__)

STATE_NAME: Final = "state.json"
SUFFIX: Final = ".lwe"
MAX_SPARE_BYTES: Final = 4 * 2**20
"""Limit in shared memory, which training needs for its batches. It holds some minutes of one rank."""
SAY_AGAIN_S: Final = 600.0


class StreamState(msgspec.Struct, kw_only=True):
    """The state file, which lies next to the envelopes and is replaced as a whole.

    ``settled_seq`` and ``cursors`` belong together. Every envelope up to that number is stored by the server
    or given up and counted. These envelopes cover the rings up to those cursors, except the ``held`` rows.
    """

    stream: str
    run_name: str
    wall_offset_ns: int
    boot_id: str | None = None
    settled_seq: int = 0
    cursors: dict[str, int] = {}
    held: list[tuple[int, ...]] = []
    announced: bool = False  # the page's address was written to the job's stderr
    losses: dict[str, dict[str, int]] = {}  # rows given up, by the envelope that will report them and by rank
    slept_ns: int | None = None  # how long the host had been suspended when wall_offset_ns was true
    saves: int = 0  # the newer of two states has the higher number


def new_stream_name(host: str) -> str:
    """Make a stream name that fits the wire's pattern and that no other host or run has."""
    label = re.sub(r"[^a-z0-9]+", "-", host.lower()).strip("-")[:40] or "host"
    return f"{label}-{uuid.uuid4().hex[:12]}"


def host_folder_name() -> str:
    """Return this host's name as a folder name, because several hosts may share a data directory."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname()).strip(".-") or "host"


def ring_folder(settings: Settings, run_id: str, host: str) -> Path:
    """Return the folder of a run's rings and streamer lock; for another host's outbox, of a lock only."""
    name = run_id if host == host_folder_name() else f"{run_id}@{host}"
    return settings.rings_dir / name


def set_aside(path: Path, suffix: str = ".corrupt", folder: Path | None = None) -> None:
    """Rename an unusable file so that a person can look at it, and move it to ``folder`` if given.

    An earlier file of that name stays; the new one gets a number.
    """
    try:
        if folder is not None:
            private_folder(folder)
        target = free_path((folder or path.parent) / (path.name + suffix))
        if folder is not None:
            shutil.move(path, target)
        else:
            path.rename(target)
    except OSError as error:
        log.warning("%s cannot be set aside: %s", path, error)


def load_state(folder: Path) -> StreamState | None:
    """Return the state; None if there is none. A broken state is set aside."""
    path = folder / STATE_NAME
    try:
        data = read_own(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        log.warning("%s cannot be read (%s); starting a new stream", path, error)
        return None
    try:
        return decode_json(data, StreamState)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        log.warning("%s is not a streamer's state (%s); set aside as .corrupt", path, error)
        set_aside(path)
        return None


def save_state(folder: Path, state: StreamState) -> None:
    """Replace the state as a whole.

    Raises:
        OSError: the disk is full or read-only; the old state is still there.
    """
    write_atomically(folder / STATE_NAME, msgspec.json.encode(state))


class OutboxFiles:
    """The files of an outbox: in a folder on disk, and a few in shared memory while the disk is unwritable.

    ``spare`` is the folder in shared memory, or None. A streamer that takes over reads both, so after any
    death it knows what was sent and how far the rings were read.
    """

    def __init__(self, folder: Path, spare: Path | None) -> None:
        self.folder = folder
        self.spare = spare
        self.troubles: deque[Text] = deque(maxlen=10)  # faults to report to a person
        self._failing = False
        self._unremoved: list[Path] = []  # files that a read-only disk kept
        self._said_at = -SAY_AGAIN_S
        try:
            private_folder(folder)
        except OSError as error:
            self._note(folder, error)

    def write(self, seq: int, data: bytes) -> Path | None:
        """Write an envelope's file and return its path; None if no folder can be written."""
        name = f"{seq:012d}{SUFFIX}"
        path = self.folder / name
        try:
            write_atomically(path, data)
        except OSError as error:
            self._note(self.folder, error)
        else:
            if self._failing:
                self._failing = False
                log.info("%s takes envelopes again", self.folder)
            return path
        if self.spare is None:
            return None
        if sum(path.stat().st_size for path in self.spare.glob(f"*{SUFFIX}")) + len(data) > MAX_SPARE_BYTES:
            return None
        path = self.spare / name
        try:
            write_atomically(path, data)
        except OSError as error:
            log.warning("%s cannot be written either: %s", self.spare, error)
            return None
        return path

    def envelopes(self) -> list[Path]:
        """Return every envelope's file, in order; remove files that a dying streamer left half written."""
        files: list[Path] = []
        for folder in self._folders():
            # other processes also write drafts into the spare folder
            for whole in (f"*{SUFFIX}", STATE_NAME):
                for stray in folder.glob(f"{whole}*{DRAFT}"):
                    self.discard(stray)
            files += folder.glob(f"*{SUFFIX}")
        return sorted(files, key=lambda path: path.name)

    def discard(self, path: Path) -> None:
        """Remove a file; if that fails, try again with the next file and at the end."""
        self._unremoved.append(path)
        self._sweep()

    def load_state(self) -> StreamState | None:
        """Return the newest readable state."""
        states = [state for folder in self._folders() if (state := load_state(folder)) is not None]
        return max(states, key=lambda state: state.saves, default=None)

    def save_state(self, state: StreamState) -> None:
        """Replace the state in the first writable folder."""
        state.saves += 1
        for folder in self._folders():
            try:
                save_state(folder, state)
                return
            except OSError as error:
                self._note(folder, error)

    def remove(self) -> None:
        """Remove the state and the folder, unless files remain: the state must stay with those."""
        self._sweep()
        if self._unremoved:
            return
        for folder in self._folders():
            with contextlib.suppress(OSError):
                (folder / STATE_NAME).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()  # fails, as intended, while set-aside files are in it
            self.folder.parent.rmdir()

    def _folders(self) -> list[Path]:
        return [self.folder] if self.spare is None else [self.folder, self.spare]

    def _sweep(self) -> None:
        kept: list[Path] = []
        for path in self._unremoved:
            if kept and path.parent == kept[-1].parent:
                kept.append(path)  # one try per folder, because there may be thousands
                continue
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                kept.append(path)
                if len(self._unremoved) == 1:
                    log.warning("%s cannot be removed: %s; tried again later", path, error)
        self._unremoved = kept

    def _note(self, folder: Path, error: OSError) -> None:
        if folder == self.spare:
            log.warning("the streamer's state cannot be saved in %s either: %s", folder, error)
            return
        if not self._failing:
            self._failing = True
            log.warning("%s cannot be written: %s", folder, error)
        if time.monotonic() - self._said_at > SAY_AGAIN_S:
            self._said_at = time.monotonic()
            trouble: dict[str, Param] = {
                "folder": str(folder),
                "why": error.strerror,
                "most_megabytes": MAX_SPARE_BYTES >> 20,
            }
            self.troubles.append(Text("outbox-not-written", trouble))
