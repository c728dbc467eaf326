"""The loader's surface: every case of the modules below, bare and watched, with equal results."""

from __future__ import annotations

import pytest

from tests.compat.harness import Laboratory, Trial, trials_of

MODULES = ("loader", "errors", "iteration", "classes", "process")


@pytest.mark.parametrize(
    "trial", [one for name in MODULES for one in trials_of(f"tests.compat.cases_{name}")]
)
def test_loader(trial: Trial, laboratory: Laboratory) -> None:
    laboratory.compare(trial)
