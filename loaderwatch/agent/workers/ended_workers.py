"""Notes of workers that were ended because a sample took too long, read in the training process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from loaderwatch.agent.frames import is_our_file
from loaderwatch.agent.guard import in_english
from loaderwatch.agent.workers.deadline import NOTE, Line, standing
from loaderwatch.agent.workers.sample_limit import NOTE_SUFFIX, SampleLimit, record_timeout
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.errors import SampleTimeout
from loaderwatch.core.message import Param, Text
from loaderwatch.core.records import UNKNOWN, Outcome
from loaderwatch.core.ring import RingWriter

MOST_BYTES: Final = 65_536
ENDS_WITHIN_S: Final = 1.0
_LINE: Final = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
_NAME: Final = re.compile(r"worker-\d+-(?P<loader>\d+)-(?P<worker>\d+)-\d+")


@dataclass(frozen=True)
class Note:
    """The current sample of a worker when it was ended."""

    index: int
    began_ns: int
    stood: str  # "" where the worker left no stack


def read_note(path: Path) -> Note | None:
    """Return a worker's note; None without one."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES)
    except OSError:
        return None
    if len(content) < NOTE.size:
        return None
    index, began_ns = NOTE.unpack_from(content)
    if not began_ns:
        return None
    stack = content[NOTE.size :].decode("utf-8", "replace")
    lines: list[Line] = []
    for file, number, function in _LINE.findall(stack):
        if is_our_file(file):
            break
        lines.append(Line(file, int(number), function))
    return Note(index, began_ns, standing(lines) if stack else "")


def why_ended(
    note: Note, name: str | None, worker: int, took_ns: int | None = None, option: str | None = None
) -> dict[str, Param]:
    """Return why a worker was ended, as the parameters of the message ``sample-ended-worker``."""
    return {
        "index": None if note.index == UNKNOWN else note.index,
        "loader": name,
        "took_s": None if took_ns is None else took_ns / 1e9,
        "worker": worker,
        "option": option,
        "stood": note.stood or None,
    }


def ended_worker(workers: Iterable[Any], limit: SampleLimit, ring: RingWriter) -> SampleTimeout | None:
    """Return and record the error of the worker that was ended for a sample; None if none was.

    Args:
        workers: the process objects, in the order of their numbers.
        limit: the limit of their loader.
        ring: the training process's ring.
    """
    ends = (-limit.signals.dump, -limit.signals.end)
    for number, worker in enumerate(workers):
        path = limit.note_path(number, worker.pid)
        note = read_note(path)
        if note is None:
            continue
        if note.stood:  # the worker is about to end
            worker.join(ENDS_WITHIN_S)
        if worker.exitcode not in ends:
            continue
        took_ns = monotonic_ns() - note.began_ns
        # First of all: the user's signal handler may interrupt this, and the caller then asks again.
        why = in_english(
            Text("sample-ended-worker", why_ended(note, limit.name, number, took_ns, limit.option))
        )
        record_timeout(ring, limit, number, note.began_ns, took_ns, note.index, Outcome.ENDED)
        with suppress(OSError):
            path.unlink()
        return SampleTimeout(why)
    return None


def left_behind(folder: Path, pid: int) -> Iterator[tuple[int, int, Note]]:
    """Yield loader, worker and note of each ended worker of this process that was not reported yet."""
    for path in sorted(folder.glob(f"worker-{pid}-*{NOTE_SUFFIX}")):
        match = _NAME.fullmatch(path.stem)
        note = read_note(path)
        if match is not None and note is not None and note.stood:
            yield int(match["loader"]), int(match["worker"]), note
