"""The addresses that runs gave: by ``attach(notify=)`` or LOADERWATCH_NOTIFY of the job.

The training process leaves them in a file of its data directory, for the server of the same directory. So they come from this
user and from no network: an agent's token does not make the server send anything anywhere.
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
"""Which version of a file was read: its inode and time."""


class RunAddresses:
    """Reads the files of a folder; a file that has not changed costs a stat."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, tuple[Mark, tuple[str, ...]]] = {}

    def of(self, run_id: str) -> tuple[str, ...]:
        """Return the addresses of a run. They stay known when the file goes, which it does as the job ends."""
        path = self._folder / f"{run_id}.json"
        before = self._read.get(run_id)
        known = () if before is None else before[1]
        try:
            found = os.lstat(path)
        except OSError:
            return known
        mark = (found.st_ino, found.st_mtime_ns)
        if before is not None and before[0] == mark:
            return known
        addresses = _addresses(path, found)
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
        return tuple(address for one in given for address in ADDRESSES.parse(one, path.name))
    except FileNotFoundError:
        return ()
    except NotPrivate:
        _log.warning("%s was not written by this user's training: its addresses are not used", path)
        return ()
    except (OSError, *UNDECODABLE, ConfigError):
        _log.warning("%s cannot be read as a list of addresses: they are not used", path)
        return ()
