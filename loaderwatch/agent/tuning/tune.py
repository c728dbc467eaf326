"""``loaderwatch.tune``: tries which worker setting of a loader keeps the device fed."""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import torch
from torch.utils.data import DataLoader

from loaderwatch.agent.loaders.naming import name_of
from loaderwatch.agent.tuning.search import KNOWN_FILE, OutOfTime, Search, Setting, choose
from loaderwatch.agent.tuning.trial import TrialFailed, most_workers, setting_of, try_setting, why_no_room
from loaderwatch.core.facts import LoaderTrial, Tuning
from loaderwatch.core.files import write_atomically
from loaderwatch.core.message import Text
from loaderwatch.core.wire import decode_json

ENDING_S: Final = 1.0
"""How long the workers of the last trial and the script's process take to end."""


class TuneOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of ``loaderwatch tune``."""

    asked_ns: int  # when the command began, UTC
    seconds: float  # for the whole command
    step_s: float | None = None


def tuner(options: str, folder: Path) -> Callable[[Any, str | None], Tuning]:
    """Return a function that tunes a loader, made at a given line, and writes the results to ``folder``.

    The time that the script and its imports take first counts, but the trials keep at least half of the time.
    """
    asked = decode_json(options, TuneOptions)

    def act(loader: Any, made_at: str | None) -> Tuning:
        def told(known: Tuning) -> None:
            write_atomically(folder / KNOWN_FILE, msgspec.json.encode(known))

        gone_s = (time.time_ns() - asked.asked_ns) / 1e9
        left_s = max(asked.seconds / 2, asked.seconds - gone_s - ENDING_S)
        return tune(loader, asked.step_s, left_s, made_at=made_at, told=told)

    return act


BUDGET_S: Final = 60.0
TRIALS: Final = 14
"""Trials in a budget: a search that doubles to 16 and halves twice takes 9, larger prefetches up to 4."""
SHORTEST_S: Final = 0.5

Told = Callable[[Tuning], None]


def tune(
    loader: Any,
    step_s: float | None = None,
    seconds: float = BUDGET_S,
    *,
    made_at: str | None = None,
    told: Told = lambda _: None,
) -> Tuning:
    """Try a DataLoader's settings, without training, and advise the smallest that keeps the device fed.

    The random number states of PyTorch, Python, NumPy and the loader's generators are restored. A dataset
    with a state (a cache, a position in a file) keeps what trials without workers changed.

    Args:
        loader: a ``torch.utils.data.DataLoader``.
        step_s: seconds of a training step. With a step time, the advice is the smallest setting that reads
            faster than the steps take batches. Without one, it is the smallest near the best speed.
        seconds: about how long all trials may take.
        made_at: where the loader was made, for the report.
        told: is called after each trial with the results so far.

    Returns:
        The trials and the advice; with ``error`` where the loader cannot be tried.

    Raises:
        TypeError: the loader is not a DataLoader.
        ValueError: ``step_s`` or ``seconds`` is not a positive number.
    """
    if not isinstance(loader, DataLoader):
        raise TypeError(f"tune() takes a torch.utils.data.DataLoader, not a {type(loader).__name__}")
    for name, value in (("step_s", step_s), ("seconds", seconds)):
        if value is not None and not 0 < value < float("inf"):
            raise ValueError(f"{name} is {value!r}; use a positive number of seconds")
    deadline = time.monotonic() + seconds
    shortest = min(SHORTEST_S, seconds / TRIALS)

    def attempt(setting: Setting, with_step_s: float) -> LoaderTrial:
        starts_s = search.trials[-1].start_s if search.trials else 0.0
        left = deadline - time.monotonic() - starts_s
        if search.trials and left < shortest:
            raise OutOfTime
        return try_setting(loader, setting, max(shortest, min(seconds / TRIALS, left)), with_step_s)

    def so_far(error: str | None = None) -> Tuning:
        advised = choose(search.trials, step_s or 0.0)
        return Tuning(
            loader=name_of(loader) or "loader",
            made_at=made_at,
            num_workers=now.workers,
            prefetch_factor=now.prefetch if now.workers else None,
            step_s=step_s,
            trials=list(search.trials),
            advised_workers=None if advised is None else advised.workers,
            advised_prefetch=None if advised is None or not advised.workers else advised.prefetch,
            stopped=search.stopped,
            notes=[] if most is None else [Text("stream-is-not-split")],
            error=error,
        )

    now, most = setting_of(loader), most_workers(loader)
    search = Search(now, attempt, why_no_room, step_s=step_s or 0.0, most=most, tried=lambda: told(so_far()))
    with _same_random_numbers(loader):
        try:
            search.run()
        except TrialFailed as failed:
            return so_far(str(failed))
    return so_far()


@contextlib.contextmanager
def _same_random_numbers(loader: Any) -> Iterator[None]:
    """Restore every source of random numbers that a pass may draw from."""
    numpy = sys.modules.get("numpy")
    generators = {
        id(generator): generator
        for holder in (loader, getattr(loader, "sampler", None))
        if isinstance(generator := getattr(holder, "generator", None), torch.Generator)
    }
    states = {key: generator.get_state() for key, generator in generators.items()}
    python_state, torch_state = random.getstate(), torch.get_rng_state()
    numpy_state = numpy.random.get_state() if numpy is not None else None
    try:
        yield
    finally:
        random.setstate(python_state)
        torch.set_rng_state(torch_state)
        if numpy is not None:
            numpy.random.set_state(numpy_state)
        for key, generator in generators.items():
            generator.set_state(states[key])
