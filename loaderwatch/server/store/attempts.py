"""Attempts of a run: a new attempt begins when the run's name is used again after its processes ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from loaderwatch.core.answers import AttemptStatus
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.facts import ProcessInfo

MOST: Final = 50
"""How many earlier attempts are kept. A job that restarts every few seconds for days would make thousands."""


class UnknownAttempt(LoaderwatchError):
    """The run never had this attempt, or the attempt is too old to be kept."""

    def __init__(self, number: int, newest: int) -> None:
        known = "1" if newest == 1 else f"1 to {newest}, of which the newest {MOST + 1} can be looked at"
        super().__init__(f"attempt {number} is not known; this run has {known}")


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that is over: the next one began at ``ended_ns``.

    ``state`` is ``crashed``, ``finished``, or ``lost`` when no process reported how it ended.
    ``exit`` and ``exit_code`` belong to the lowest rank that crashed.
    """

    number: int
    began_ns: int
    ended_ns: int
    state: AttemptStatus
    steps: int | None = None  # training steps of the rank that was furthest, None if no process reported them
    exit: str | None = None
    exit_code: int | None = None


def ended(number: int, began_ns: int, ended_ns: int, processes: Iterable[ProcessInfo]) -> Attempt:
    """Return the record of an attempt that ends when the next one begins."""
    processes = sorted(processes, key=lambda process: process.rank)
    crashed = next((process for process in processes if process.state == "crashed"), None)
    live = any(process.state == "live" for process in processes)
    return Attempt(
        number=number,
        began_ns=began_ns or min((process.started_ns for process in processes), default=ended_ns),
        ended_ns=ended_ns,
        state="crashed" if crashed is not None else "lost" if live else "finished",
        steps=max((process.steps for process in processes if process.steps is not None), default=None),
        exit=None if crashed is None else crashed.exit,
        exit_code=None if crashed is None else crashed.exit_code,
    )
