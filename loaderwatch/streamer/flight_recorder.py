"""Reads the dump of PyTorch's flight recorder: a rank's collectives when one of them timed out.

Another process of this user pickled the dump. Only plain containers, numbers and text are read from it.
"""

from __future__ import annotations

import io
import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from loaderwatch.core.facts import FlightEntry, FlightGroup, ProcessInfo
from loaderwatch.core.system import HAS_OWNERS, own_user

log = logging.getLogger(__name__)

MAX_BYTES: Final = 64 * 2**20
MOST_GROUPS: Final = 16
MOST_ENTRIES: Final = 32
"""Newest collectives read per group. They include the ones that diverged, since the group then stops."""


class _Plain(pickle.Unpickler):
    """An unpickler that creates no object of any class and calls nothing, whatever the pickle says."""

    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(
            f"{module_name}.{global_name} does not belong into a flight recorder's dump"
        )

    def persistent_load(self, pid: Any, /) -> NoReturn:
        raise pickle.UnpicklingError("a persistent id does not belong into a flight recorder's dump")


class FlightReader:
    """Reads the dump of each training process once, as soon as it exists."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[int, list[FlightGroup]]] = {}  # by path: modification time, content

    def annotate(self, processes: list[ProcessInfo]) -> list[ProcessInfo]:
        """Return the processes with the collectives of their dumps."""
        return [
            msgspec.structs.replace(process, flight=groups)
            if process.flight_dump and (groups := self._groups(process.flight_dump, process.started_ns))
            else process
            for process in processes
        ]

    def _groups(self, path: str, since_ns: int) -> list[FlightGroup]:
        try:
            stat = Path(path).stat()
        except OSError:
            return []  # the usual case: no collective has timed out
        known = self._read.get(path)
        if known is not None and known[0] == stat.st_mtime_ns:
            return known[1]
        if stat.st_mtime_ns < since_ns or (HAS_OWNERS and stat.st_uid != own_user()):
            return []  # the dump belongs to an earlier job or to another user
        groups: list[FlightGroup] = []
        if stat.st_size > MAX_BYTES:
            log.warning("%s has %d bytes; at most %d are read", path, stat.st_size, MAX_BYTES)
        else:
            try:
                groups = read_dump(Path(path).read_bytes(), stat.st_mtime_ns)
            except (OSError, ValueError) as error:
                log.warning("%s could not be read: %s", path, error)
                return []  # it may be half written and is read again later
        self._read[path] = (stat.st_mtime_ns, groups)
        return groups


def read_dump(data: bytes, written_ns: int) -> list[FlightGroup]:
    """Return the newest collectives of each process group in a dump.

    Raises:
        ValueError: the data is not such a dump.
    """
    try:
        dump = _Plain(io.BytesIO(data)).load()
        entries = list(_entries(dump))
    except (
        pickle.UnpicklingError,
        EOFError,
        AttributeError,
        LookupError,
        TypeError,
        OverflowError,
        MemoryError,
        RecursionError,
    ) as error:
        raise ValueError(f"no flight recorder's dump: {error}") from error
    by_group: dict[str, list[FlightEntry]] = {}
    for group, entry in entries:
        by_group.setdefault(group, []).append(entry)
    return [
        FlightGroup(
            group=group,
            written_ns=written_ns,
            entries=sorted(group_entries, key=lambda entry: entry.number)[-MOST_ENTRIES:],
        )
        for group, group_entries in list(by_group.items())[:MOST_GROUPS]
    ]


def _entries(dump: Any) -> Iterator[tuple[str, FlightEntry]]:
    for raw in dump["entries"]:
        if raw.get("is_p2p"):
            continue
        names = raw.get("process_group") or ("", "")
        yield (
            str(names[1] or names[0])[:200],
            FlightEntry(
                number=int(raw["collective_seq_id"]),
                what=str(raw["profiling_name"])[:200],
                state=str(raw["state"])[:40],
                at=_own_frame(raw.get("frames") or []),
            ),
        )


def _own_frame(frames: list[Any]) -> str | None:
    """Return the innermost frame outside of installed packages, as "train.py:33 in step"."""
    for frame in frames:
        file = str(frame["filename"])
        if "site-packages" not in file and "dist-packages" not in file and "/lib/python" not in file:
            return f"{Path(file).name}:{int(frame['line'])} in {frame['name']}"[:200]
    return None
