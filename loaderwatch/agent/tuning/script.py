"""Tuning within a script that ``loaderwatch tune`` runs: where it would begin to train, its training loader is tried."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from loaderwatch.agent.tuning.search import KNOWN_FILE
from loaderwatch.agent.tuning.tune import tune
from loaderwatch.core.facts import Tuning
from loaderwatch.core.files import write_atomically
from loaderwatch.core.wire import decode_json


class TuneOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What ``loaderwatch tune`` was asked for."""

    seconds: float
    step_s: float | None = None


def tuner(options: str, folder: Path) -> Callable[[Any, str | None], Tuning]:
    """Return a function that tunes a loader, given with the line that made it, and writes what is known after each trial to ``folder``."""
    asked = decode_json(options, TuneOptions)

    def act(loader: Any, made_at: str | None) -> Tuning:
        def told(known: Tuning) -> None:
            write_atomically(folder / KNOWN_FILE, msgspec.json.encode(known))

        return tune(loader, asked.step_s, asked.seconds, made_at=made_at, told=told)

    return act
