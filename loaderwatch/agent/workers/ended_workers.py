"""Notes of workers that were ended because a sample took too long, read in the training process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from loaderwatch.agent.frames import is_our_file
from loaderwatch.agent.workers.deadline import NOTE, Line, standing
from loaderwatch.agent.workers.sample_limit import NOTE_SUFFIX, SampleLimit, record_timeout
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.errors import SampleTimeout
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
    note: Note, name: str, worker: int, took_ns: int | None = None, option: str = "its sample_timeout"
) -> str:
    """Say why a worker was ended."""
    subject = "a batch" if note.index == UNKNOWN else f"sample {note.index}"
    took = "too long" if took_ns is None else f"{took_ns / 1e9:.1f} s"
    stood = (
        f"it stood at {note.stood}, in code that does not return to Python"
        " or in an `except:` that catches everything"
        if note.stood
        else "it was stuck in the kernel, as with storage that does not answer"
    )
    return (
        f"{subject} of {name} took {took} in worker {worker}, longer than {option}. It could not be"
        f" interrupted, so the worker was ended: {stood}. Give that call a timeout of its own, run it in a"
        " process that can be killed, or raise sample_timeout"
    )


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
        record_timeout(ring, limit, number, note.began_ns, took_ns, note.index, Outcome.ENDED)
        with suppress(OSError):
            path.unlink()
        return SampleTimeout(why_ended(note, limit.name, number, took_ns, limit.option))
    return None


def left_behind(folder: Path, pid: int) -> Iterator[tuple[int, int, Note]]:
    """Yield loader, worker and note of each ended worker of this process that was not reported yet."""
    for path in sorted(folder.glob(f"worker-{pid}-*{NOTE_SUFFIX}")):
        match = _NAME.fullmatch(path.stem)
        note = read_note(path)
        if match is not None and note is not None and note.stood:
            yield int(match["loader"]), int(match["worker"]), note
