"""The addresses that runs gave: by ``attach(notify=)`` or the job's LOADERWATCH_NOTIFY.

The training process writes them into a file of its data directory, for that directory's server. So they come
from this user and not from the network: an agent token cannot make the server send anything anywhere.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Final

import msgspec

from loaderwatch.core.environment_variables import ADDRESSES
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.files import NotPrivate, read_own
from loaderwatch.core.wire import UNDECODABLE

_log = logging.getLogger(__name__)

_MAX_BYTES: Final = 64 * 1024
_decode: Final = msgspec.json.Decoder(list[str]).decode
Mark = tuple[int, int]
"""The version of a file that was read: inode and modification time."""


class RunAddresses:
    """Reads the files of a folder; an unchanged file costs one stat."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, tuple[Mark, tuple[str, ...]]] = {}

    def of(self, run_id: str) -> tuple[str, ...]:
        """Return the addresses of a run. They stay known after the job ends and its file is removed."""
        path = self._folder / f"{run_id}.json"
        previous = self._read.get(run_id)
        known = () if previous is None else previous[1]
        try:
            status = os.lstat(path)
        except OSError:
            return known
        mark = (status.st_ino, status.st_mtime_ns)
        if previous is not None and previous[0] == mark:
            return known
        addresses = _addresses(path, status)
        self._read[run_id] = mark, addresses
        return addresses

    def forget(self, run_id: str) -> None:
        """Forget a run that is over."""
        self._read.pop(run_id, None)


def _addresses(path: Path, found: os.stat_result) -> tuple[str, ...]:
    try:
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:
            raise NotPrivate
        given = _decode(read_own(path))
        return tuple(address for text in given for address in ADDRESSES.parse(text, path.name))
    except FileNotFoundError:
        return ()
    except NotPrivate:
        _log.warning("%s was not written by this user's training: its addresses are not used", path)
        return ()
    except (OSError, *UNDECODABLE, ConfigError):
        _log.warning("%s cannot be read as a list of addresses: they are not used", path)
        return ()
