"""What must survive a streamer's death: the stream, how far it was stored, and how far each ring was read."""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import uuid
from pathlib import Path
from typing import Final

import msgspec

from loaderwatch.core.aside import free_path
from loaderwatch.core.config import Settings
from loaderwatch.core.files import private_folder

log = logging.getLogger(__name__)

STATE_NAME: Final = "state.json"


class StreamState(msgspec.Struct, kw_only=True):
    """Written next to the envelopes, replaced as a whole.

    ``settled_seq`` and ``cursors`` belong together: every envelope up to that number is stored by the server, or was
    given up and counted, and it covered the rings up to those cursors.
    """

    stream: str
    run_name: str
    wall_offset_ns: int
    boot_id: str | None = None
    settled_seq: int = 0
    cursors: dict[str, int] = {}
    announced: bool = False  # the page's address was written to the job's stderr
    losses: dict[str, dict[str, int]] = {}  # rows given up, by the envelope that will report them and by rank
    slept_ns: int | None = None  # how long the host had been suspended when wall_offset_ns was true
    saves: int = 0  # tells the newer of two states


def new_stream_name(host: str) -> str:
    """A name that no other host or run has; fits the wire's pattern."""
    label = re.sub(r"[^a-z0-9]+", "-", host.lower()).strip("-")[:40] or "host"
    return f"{label}-{uuid.uuid4().hex[:12]}"


def host_folder_name() -> str:
    """This host's name as a folder: a data directory may be shared by several hosts."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname()).strip(".-") or "host"


def ring_folder(settings: Settings, run_id: str, host: str) -> Path:
    """Where the rings of a run lie, with its streamer's lock; for another host's outbox a folder for the lock alone."""
    name = run_id if host == host_folder_name() else f"{run_id}@{host}"
    return settings.rings_dir / name


def boot_id() -> str | None:
    """Tells one boot of the host from another; monotonic stamps mean nothing across them."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return None


def set_aside(path: Path, suffix: str = ".corrupt", folder: Path | None = None) -> None:
    """Rename a file that cannot be used, so that a person can look at it; into ``folder``, if one is named.

    What was set aside before under the same name stays: the second gets a number.
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
    """The state, or None if there is none that can be used (a broken one is set aside)."""
    path = folder / STATE_NAME
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        log.warning("%s cannot be read (%s); starting a new stream", path, error)
        return None
    try:
        return msgspec.json.decode(data, type=StreamState)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        log.warning("%s is not a streamer's state (%s); set aside as .corrupt", path, error)
        set_aside(path)
        return None


def save_state(folder: Path, state: StreamState) -> None:
    """Replace the state as a whole.

    Raises:
        OSError: the disk is full or read-only; the old state is still there.
    """
    scratch = folder / (STATE_NAME + ".new")
    try:
        scratch.write_bytes(msgspec.json.encode(state))
        os.replace(scratch, folder / STATE_NAME)  # noqa: PTH105 - Path.replace is the same call
    except OSError:
        scratch.unlink(missing_ok=True)
        raise
