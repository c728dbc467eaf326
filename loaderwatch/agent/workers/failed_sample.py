"""Which sample an error came from: read from the traceback of the error, in the process whose fetch raised it.

PyTorch's fetcher stands in that traceback, with the indices that it was given; its clock has counted how many of them were read.
A worker hands its answer to the training process with PyTorch's own ``ExceptionWrapper``, as one more field. The error itself, its
text and its traceback stay as they are.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from traceback import walk_tb
from types import FrameType
from typing import Any, Final

import msgspec

from loaderwatch.agent.guard import say
from loaderwatch.agent.hot.layout import AT_ONCE, EACH_COUNTED, ONE, ONE_COUNTED
from loaderwatch.agent.source import is_script
from loaderwatch.core.facts import Call, FailedSample
from loaderwatch.core.printable import one_line
from loaderwatch.core.wire import decode_json

FIELD: Final = "_loaderwatch_failed_sample"
"""Of PyTorch's ``ExceptionWrapper``; its value is JSON, so that it can be unpickled wherever the wrapper can."""
MOST_INDICES: Final = 64
"""Indices of one batch that are named; a person looks at a few, and the number of all is told."""
MOST_TOLD: Final = 8
"""Indices that the line on stderr names."""
MOST_ERRORS: Final = 8
"""Errors that were raised from each other and are looked through, the newest first."""
MOST_KEY: Final = 200
MOST_ERROR: Final = 300
_FETCH: Final = "torch.utils.data._utils.fetch"
_RERAISE: Final = ("torch._utils", "reraise")


def mark(wrapper: Any) -> None:
    """Note in PyTorch's ``ExceptionWrapper`` from which sample the error came that is being handled in this worker."""
    error = sys.exc_info()[1]
    found = _failed_in(error) if error is not None else None
    if found is not None:
        lines = str(wrapper.exc_msg).strip().splitlines()
        said = msgspec.structs.replace(found, error=lines[-1].strip()[:MOST_ERROR] if lines else "")
        setattr(wrapper, FIELD, msgspec.json.encode(said))
        try:
            ForkingPickler.dumps(wrapper)
        except Exception as why:  # noqa: BLE001 - what pickling raises is the class's own
            say(
                f"{told(said)}. The error cannot be handed to the training process, which waits for this batch in vain"
                f" ({one_line(str(why))}). Define its class at the top of a module"
            )


def failed_sample(error: BaseException) -> FailedSample | None:
    """Return from which sample an error came that this process ends with; None where it came from none, or that is not known.

    An interrupt, or an exit, that arrives during a fetch is no fault of the sample.
    """
    if not isinstance(error, Exception):
        return None
    for each in _raised_from(error):
        for frame, _ in walk_tb(each.__traceback__):
            if (frame.f_globals.get("__name__"), frame.f_code.co_name) == _RERAISE:
                noted = getattr(frame.f_locals.get("self"), FIELD, None)
                return decode_json(noted, FailedSample) if isinstance(noted, bytes) else None
        found = _failed_in(each)
        if found is not None:
            text = str(each).strip().splitlines()
            said = ": ".join([type(each).__name__, *text[-1:]])
            return msgspec.structs.replace(found, error=said[:MOST_ERROR])
    return None


def told(failed: FailedSample) -> str:
    """Say in one line what failed, for the job's stderr."""
    who = "the training process" if failed.worker < 0 else f"worker {failed.worker}"
    doing = "collating" if failed.collating else "reading"
    name = "sample number" if failed.counted else "sample"
    named = ", ".join(map(repr, failed.indices[:MOST_TOLD]))
    rest = failed.samples - min(len(failed.indices), MOST_TOLD)
    what = "a sample" if failed.samples <= 1 else f"a batch of {failed.samples} samples"
    if named:
        what = f"{name}{'s' * (failed.samples > 1)} {named}{f' and {rest} more' if rest > 0 else ''}"
    where = f", at {failed.at.file}:{failed.at.line} in {failed.at.function}" if failed.at is not None else ""
    return one_line(f"{who} failed while {doing} {what}{where}: {failed.error}")


def _raised_from(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, the one that it was raised from or while handling which it was raised, and so on."""
    each: BaseException | None = error
    for _ in range(MOST_ERRORS):
        if each is None:
            return
        yield each
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)


def _failed_in(error: BaseException) -> FailedSample | None:
    """Return what a watched fetch of this process failed on, by an error's traceback; None where no such fetch raised it."""
    frames = [(frame, line) for frame, line in walk_tb(error.__traceback__)]
    at = next((place for place, (frame, _) in enumerate(frames) if _is_fetch(frame)), None)
    if at is None:
        return None
    names = frames[at][0].f_locals
    fetcher, handed = names["self"], names.get("possibly_batched_index")
    clock, reads = vars(fetcher)["_loaderwatch"], vars(fetcher)["_loaderwatch_reads"]
    keys, counted, collating = _keys(clock, reads, handed)
    inner = [each for each in frames[at + 1 :] if each[0].f_globals.get("__name__") != _FETCH]
    line = next((each for each in reversed(inner) if is_script(each[0].f_code.co_filename)), None)
    line = line or (inner[0] if inner else None)
    return FailedSample(
        loader=clock.loader,
        worker=clock.worker,
        samples=len(keys),
        indices=[key for key in map(_plain, keys[:MOST_INDICES]) if key is not None],
        counted=counted,
        collating=collating,
        at=line and Call(file=line[0].f_code.co_filename, function=line[0].f_code.co_name, line=line[1]),
    )


def _is_fetch(frame: FrameType) -> bool:
    """Whether this is the fetch of a watched fetcher."""
    if frame.f_globals.get("__name__") != _FETCH:
        return False
    return "_loaderwatch_reads" in getattr(frame.f_locals.get("self"), "__dict__", {})


def _keys(clock: Any, reads: int, handed: Any) -> tuple[list[Any], bool, bool]:
    """Return the keys of what failed, whether they are numbers of an iterable dataset's samples, and whether collating failed."""
    if reads == ONE:
        return [handed], False, False
    if reads == ONE_COUNTED:
        return [clock.samples - 1], True, False
    indices = list.copy(handed) if isinstance(handed, list) else []
    if reads == AT_ONCE:
        return indices, False, False
    done = clock.last_count
    if reads == EACH_COUNTED:
        indices = list(range(clock.samples - done, clock.samples - done + len(indices)))
    whole = done >= len(indices)
    return indices if whole else [indices[done]], reads == EACH_COUNTED, whole


def _plain(key: Any) -> int | str | None:
    """Return an index as a number or text; None for keys of other kinds, whose code is the user's."""
    if type(key) is int:
        return key if -(2**63) <= key < 2**63 else None
    if type(key) is str:
        return key[:MOST_KEY]
    if type(key).__module__ == "numpy" and hasattr(key, "__index__"):
        with contextlib.suppress(Exception):
            return int(key)
    if type(key) is tuple and all(type(part) in (int, str) for part in key):
        return repr(key)[:MOST_KEY]
    return None
