"""One trial: a loader with one setting is read for some seconds, and its batches are counted."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any, Final

from loaderwatch.agent.tuning.rebuild import rebuilt
from loaderwatch.agent.tuning.search import Setting
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.facts import LoaderTrial
from loaderwatch.core.system import PROC

WARM_RATIO: Final = 0.25
"""The share of a trial in which workers come into their stride: what they read at the start lies in no steady queue yet."""
FEW_BATCHES: Final = 8
"""A trial goes on for more batches than these, and than two for each worker, unless it takes ``LONGEST`` times its time."""
LONGEST: Final = 3.0


class TrialFailed(LoaderwatchError):
    """The loader cannot be tried: it raised, or it has no batches."""


def try_setting(loader: Any, setting: Setting, seconds: float, step_s: float = 0.0) -> LoaderTrial:
    """Read batches for about ``seconds`` s and say how many come per second, once they come steadily.

    Where an epoch is shorter, the next one begins, and what that takes counts: a training pays it, too.

    Args:
        loader: a DataLoader; another one is made like it.
        setting: what that one gets.
        seconds: how long, from the first batch on.
        step_s: what a training step takes. The reader sleeps for so long between batches, and the share of its time in
            which it waits is measured; with 0 it takes batches as fast as they come.

    Raises:
        TrialFailed: the loader raised, or gave no batch.
    """
    began = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # PyTorch warns of more workers than CPUs, which is what we find out
            return _read(rebuilt(loader, setting), setting, seconds, step_s, began)
    except TrialFailed:
        raise
    except Exception as error:
        lines = (
            str(error).strip().splitlines()
        )  # of a worker's error, its whole traceback; the error itself comes last
        what = lines[-1] if len(lines) > 1 else ": ".join([type(error).__name__, *lines])
        raise TrialFailed(f"reading a batch with num_workers={setting.workers} failed with {what}") from error


def _read(made: Any, setting: Setting, seconds: float, step_s: float, began: float) -> LoaderTrial:
    arrivals: list[float] = []
    waits_s: list[float] = []
    passes: list[Iterator[Any]] = [iter(made)]
    first_at: float | None = None
    while True:
        asked = time.monotonic()
        got = next(passes[-1], passes)
        if got is passes:
            if not arrivals:
                raise TrialFailed("the loader has no batches")
            passes[-1] = iter(made)
            got = next(passes[-1], passes)
            if got is passes:
                raise TrialFailed("the dataset gives its rows once only, so that nothing can be compared")
        now = time.monotonic()
        first_at = now if first_at is None else first_at
        arrivals.append(now)
        waits_s.append(now - asked)
        if _is_enough(arrivals, setting.workers, seconds):
            break
        if step_s:
            time.sleep(step_s)
    return LoaderTrial(
        num_workers=setting.workers,
        prefetch_factor=setting.prefetch if setting.workers else None,
        batches=len(arrivals),
        batches_per_s=_steady_rate(arrivals, setting.workers, seconds),
        start_s=first_at - began,
        wait_ratio=_wait_ratio(arrivals, waits_s, seconds) if step_s else None,
        batch_bytes=tensor_bytes(got),
        worker_bytes=own_bytes(passes[-1]),
    )


def _is_enough(arrivals: list[float], workers: int, seconds: float) -> bool:
    took = arrivals[-1] - arrivals[0]
    if took >= LONGEST * seconds:
        return True
    return took >= seconds and len(arrivals) > max(FEW_BATCHES, 2 * workers)


def _steady(arrivals: list[float], seconds: float) -> int:
    """Return the number of the first batch that counts."""
    warm = arrivals[0] + WARM_RATIO * seconds
    first = next(number for number, at in enumerate(arrivals) if at >= warm or number == len(arrivals) - 2)
    return max(0, first)


def _steady_rate(arrivals: list[float], workers: int, seconds: float) -> float:
    """Return batches per second over whole rounds of the workers, since their batches may come all at once."""
    if len(arrivals) < 2:
        return 1.0 / max(1e-9, seconds)
    first = _steady(arrivals, seconds)
    last = len(arrivals) - 1
    if workers and last - first > workers:
        last -= (last - first) % workers
    return (last - first) / max(1e-9, arrivals[last] - arrivals[first])


def _wait_ratio(arrivals: list[float], waits_s: list[float], seconds: float) -> float:
    first = _steady(arrivals, seconds)
    took = arrivals[-1] - arrivals[first]
    return min(1.0, sum(waits_s[first + 1 :]) / took) if took > 0 else 1.0


def own_bytes(iterator: Any) -> int | None:
    """Return the memory that the workers share with nobody, in bytes; None without workers or where the system does not say."""
    workers = getattr(iterator, "_workers", ())
    found = [_private_bytes(worker.pid) for worker in workers]
    known = [one for one in found if one is not None]
    return sum(known) if known else None


def _private_bytes(pid: int) -> int | None:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text("ascii").splitlines()
    except OSError:
        return None
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def tensor_bytes(batch: Any, depth: int = 0) -> int:
    """Return the bytes of the tensors and arrays in a batch: in dicts, lists, tuples, a few levels deep."""
    size = getattr(batch, "nbytes", None)
    if isinstance(size, int):
        return size
    if depth > 4:
        return 0
    parts = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, list | tuple) else ()
    return sum(tensor_bytes(one, depth + 1) for one in parts)
