"""Tuning in a script that ``loaderwatch tune`` runs: its loader is tried where training would begin."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from loaderwatch.agent.tuning.search import KNOWN_FILE
from loaderwatch.agent.tuning.tune import tune
from loaderwatch.core.facts import Tuning
from loaderwatch.core.files import write_atomically
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
