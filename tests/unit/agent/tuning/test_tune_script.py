"""Tuning within a script: how much time is left for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loaderwatch.agent.tuning import tune as tuning


@pytest.mark.parametrize(
    ("took_s", "left_s"), [(0.0, 59.0), (10.0, 49.0), (45.0, 30.0), (500.0, 30.0)], ids=str
)
def test_what_the_script_does_first_counts_up_to_half(
    took_s: float, left_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    def record(loader: Any, step_s: float | None, seconds: float, **others: Any) -> None:
        given.append(seconds)

    asked_ns = 1_800_000_000 * 10**9
    monkeypatch.setattr("time.time_ns", lambda: asked_ns + int(took_s * 1e9))
    monkeypatch.setattr(tuning, "tune", record)
    tuning.tuner(f'{{"asked_ns": {asked_ns}, "seconds": 60}}', tmp_path)([], None)
    assert given == [pytest.approx(left_s)]
