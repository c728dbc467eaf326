"""Which sample an error came from: read from the error's traceback, in the process whose fetch raised it.

The traceback contains PyTorch's fetcher with its indices, and the list of indices knows how many were read. A
worker sends the result to the training process in PyTorch's own ``ExceptionWrapper``, as an additional field.
The error, its text and its traceback stay unchanged.
"""

from __future__ import annotations

import contextlib
import operator
import sys
from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from multiprocessing.reduction import ForkingPickler
from opcode import opmap
from traceback import walk_tb
from types import FrameType
from typing import Any, Final

import msgspec
import numpy
import torch

from loaderwatch.agent.guard import in_own_language, say
from loaderwatch.agent.hot import TimedIndices
from loaderwatch.agent.hot.layout import AT_ONCE, EACH_COUNTED, ONE, ONE_COUNTED
from loaderwatch.agent.source import is_script
from loaderwatch.core.facts import Call, FailedSample
from loaderwatch.core.message import Param, Text
from loaderwatch.core.printable import one_line
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.wire import decode_json

FIELD: Final = "_loaderwatch_failed_sample"
"""A field of PyTorch's ``ExceptionWrapper``: JSON, so it can be unpickled wherever the wrapper can."""
MOST_INDICES: Final = 64
"""How many indices of one batch are sent: a person looks at a few, and the total number is reported."""
MOST_TOLD: Final = 8
"""How many indices the line on stderr names."""
MOST_ERRORS: Final = 8
"""How many errors that were raised from each other are searched, the newest first."""
MOST_KEY: Final = 200
MOST_ERROR: Final = 300
_FETCH: Final = "torch.utils.data._utils.fetch"
_RERAISE: Final = ("torch._utils", "reraise")
_RAISE: Final = opmap["RAISE_VARARGS"]
"""The instruction of a ``raise`` statement."""
_LISTS: Final = (list, tuple, range, dict, set, frozenset, deque, array)
"""Kinds of batches that can be read again. Subclasses count, too, if they have no iterator of their own."""
_ARRAYS: Final = (numpy.ndarray, torch.Tensor)
"""Kinds of batches whose subclasses run the user's code when they are read."""


def mark(wrapper: Any) -> None:
    """Note in PyTorch's ``ExceptionWrapper`` which sample caused the error that this worker is handling."""
    error = sys.exc_info()[1]
    failed = _failed_in(error) if error is not None else None
    if failed is not None:
        setattr(wrapper, FIELD, msgspec.json.encode(failed))
        try:
            ForkingPickler.dumps(wrapper)
        except Exception as why:  # noqa: BLE001 - pickling runs the error class's own code
            say(in_own_language("sample-error-not-sent", sample=told(failed), why=one_line(str(why))))


def failed_sample(error: BaseException) -> tuple[FailedSample | None, bool]:
    """Return the sample that caused this process's final error, and whether a fetch raised that very error.

    The sample is None if no sample caused the error, or if that is unknown. If no fetch raised the error
    itself, it was raised from a fetch's error. An interrupt or exit is no fault of the sample.
    """
    if isinstance(error, Exception):
        for cause in _raised_from(error):
            failed = _noted(cause) or _failed_in(cause)
            if failed is not None:
                return failed, cause is error
    return None, False


def told(failed: FailedSample) -> Text:
    """Return what failed, for one line on the job's stderr."""
    at = failed.at
    params: dict[str, Param] = {
        "worker": None if failed.worker < 0 else failed.worker,
        "collating": failed.collating,
        "counted": failed.counted,
        "keys": one_line(", ".join(map(repr, failed.indices[:MOST_TOLD]))) or None,
        "samples": failed.samples,
        "more": max(0, failed.samples - min(len(failed.indices), MOST_TOLD)),
        "place": None if at is None else one_line(f"{at.file}:{at.line} in {at.function}"),
        "error": one_line(failed.error),
    }
    return Text("sample-failed", params)


def _raised_from(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, the error that it was raised from, and so on.

    An error that is raised while another one is handled need not come from it: a retry may fail for its own
    reason. It does come from it if the code that caught the other error replaced it with a ``raise``.
    """
    current: BaseException | None = error
    for _ in range(MOST_ERRORS):
        if current is None:
            return
        yield current
        older = None if current.__suppress_context__ else current.__context__
        current = current.__cause__ or (older if older is not None and _replaces(current, older) else None)


def _replaces(error: BaseException, older: BaseException) -> bool:
    """Whether the function that caught the older error raised this one with a ``raise``."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code.co_code[trace.tb_lasti] != _RAISE:
        return False
    return any(frame is trace.tb_frame for frame, _ in walk_tb(older.__traceback__))


def _noted(error: BaseException) -> FailedSample | None:
    """Return a worker's note in the ``ExceptionWrapper`` that raised an error in this process."""
    for frame, _ in walk_tb(error.__traceback__):
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) == _RERAISE:
            noted = getattr(frame.f_locals.get("self"), FIELD, None)
            return decode_json(noted, FailedSample) if isinstance(noted, bytes) else None
    return None


def _failed_in(error: BaseException) -> FailedSample | None:
    """Return what a watched fetch of this process failed on; None if no such fetch raised the error."""
    frames = [(frame, line) for frame, line in walk_tb(error.__traceback__)]
    at = next((number for number, (frame, _) in enumerate(frames) if _is_fetch(frame)), None)
    if at is None:
        return None
    names = frames[at][0].f_locals
    clock, reads = vars(names["self"])["_loaderwatch"], vars(names["self"])["_loaderwatch_reads"]
    keys, samples, collating = _keys(clock, reads, names)
    inner = [place for place in frames[at + 1 :] if place[0].f_globals.get("__name__") != _FETCH]
    line = next((place for place in reversed(inner) if is_script(place[0].f_code.co_filename)), None)
    line = line or (inner[0] if inner else None)
    return FailedSample(
        loader=clock.loader,
        worker=clock.worker,
        samples=samples,
        indices=[key for key in map(_plain, keys) if key is not None],
        counted=reads in (ONE_COUNTED, EACH_COUNTED),
        collating=collating,
        at=line and Call(file=line[0].f_code.co_filename, function=line[0].f_code.co_name, line=line[1]),
        error=_words(error),
    )


def _is_fetch(frame: FrameType) -> bool:
    """Whether this is the fetch of a watched fetcher."""
    if frame.f_globals.get("__name__") != _FETCH:
        return False
    return "_loaderwatch_reads" in getattr(frame.f_locals.get("self"), "__dict__", {})


def _keys(clock: Any, reads: int, names: Mapping[str, Any]) -> tuple[list[Any], int, bool]:
    """Return the failed keys, how many samples, and whether collating failed; ``names`` are ``fetch``'s.

    The keys of an iterable dataset are its samples' numbers. A large batch has only its first keys.
    """
    handed: Any = names.get("possibly_batched_index")
    collating = "data" in names
    if reads in (ONE, ONE_COUNTED):
        return [handed if reads == ONE else clock.samples - 1], 1, collating
    keys, samples = _batch(handed)
    done = handed.done if type(handed) is TimedIndices else UNKNOWN
    if reads == EACH_COUNTED:
        # Such a fetch has its list of samples from its first line on, and the last batch may be shorter.
        read = len(names.get("data", ())) if done == UNKNOWN else done
        collating = names["self"].ended or read >= samples
        count = read if collating else 1
        if done == UNKNOWN:
            return [], count, collating
        first = handed.first + (0 if collating else read)
        return list(range(first, first + min(count, MOST_INDICES))), count, collating
    if collating or reads == AT_ONCE:
        return keys, samples, collating
    if 0 <= done < samples:
        return [list.__getitem__(handed, done)], 1, False
    return keys, samples or 1, False  # any of these keys: how many were read is unknown


def _batch(handed: Any) -> tuple[list[Any], int]:
    """Return a batch's first keys and its size; none if that runs the user's code or uses up a generator."""
    kind: Any = type(handed)
    if kind not in _ARRAYS:
        kind = next((base for base in _LISTS if isinstance(handed, base)), None)
        if kind is None or type(handed).__iter__ not in (kind.__iter__, TimedIndices.__iter__):
            return [], 0
    try:
        return list(islice(kind.__iter__(handed), MOST_INDICES)), kind.__len__(handed)
    except Exception:  # noqa: BLE001 - what arrays and tensors without a dimension raise
        return [], 0


def _words(error: BaseException) -> str:
    """Return an error's type and the last line of its message."""
    text: list[str] = []
    with contextlib.suppress(Exception):  # the message runs the user's code
        text = str(error).strip().splitlines()
    return ": ".join([type(error).__name__, *text[-1:]])[:MOST_ERROR]


def _plain(key: Any) -> int | str | None:
    """Return an index as a number or text; None for keys of other types, which run the user's code."""
    if type(key) is int:
        return key if -(2**63) <= key < 2**63 else None
    if type(key) is str:
        return key[:MOST_KEY]
    if type(key).__module__ == "numpy" or (type(key) is torch.Tensor and key.device.type == "cpu"):
        with contextlib.suppress(Exception):  # floats and whole arrays raise
            return _plain(operator.index(key))
    if type(key) is tuple and all(type(part) in (int, str) for part in key):
        return repr(key)[:MOST_KEY]
    return None
