"""The training around the loader: every case of the modules below, bare and watched, with equal results."""

from __future__ import annotations

import pytest

from tests.compat.harness import Laboratory, Trial, trials_of

MODULES = ("training", "models", "compile", "wrappers", "frameworks", "endings", "ranks")
LONG = ("compile", "ranks")  # a minute each: PyTorch's compiler, and ranks that come up


@pytest.mark.parametrize(
    "trial", [one for name in MODULES for one in trials_of(f"tests.compat.cases_{name}", name in LONG)]
)
def test_training(trial: Trial, laboratory: Laboratory) -> None:
    laboratory.compare(trial)
