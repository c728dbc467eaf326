"""Tuning within a script that ``loaderwatch tune`` runs: where it would begin to train, its training loader is tried."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from loaderwatch.agent.tuning.search import TRIALS_FILE
from loaderwatch.agent.tuning.tune import tune
from loaderwatch.core.facts import LoaderTrial, Tuning


class TuneOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What ``loaderwatch tune`` was asked for."""

    seconds: float
    step_s: float | None = None


def tuner(options: str, folder: Path) -> Callable[[Any, str | None], Tuning]:
    """Return a function that tunes a loader, given with the line that made it, and writes each trial to ``folder``."""
    asked = msgspec.json.decode(options, type=TuneOptions)

    def act(loader: Any, made_at: str | None) -> Tuning:
        with (folder / TRIALS_FILE).open("ab", buffering=0) as file:

            def told(trial: LoaderTrial) -> None:
                file.write(msgspec.json.encode(trial) + b"\n")

            return tune(loader, asked.step_s, asked.seconds, made_at=made_at, told=told)

    return act
