"""The training around the loader: every case of the modules below, bare and watched, with equal results."""

from __future__ import annotations

import pytest

from tests.compat.harness import Laboratory, Trial, trials_of

MODULES = ("training", "models", "compile", "wrappers", "frameworks", "endings", "ranks")
LONG = ("compile", "frameworks", "ranks")
"""Many seconds each: PyTorch's compiler, ranks that come up, and what tests/frameworks trains as well."""


@pytest.mark.parametrize(
    "trial", [one for name in MODULES for one in trials_of(f"tests.compat.cases_{name}", name in LONG)]
)
def test_training(trial: Trial, laboratory: Laboratory) -> None:
    laboratory.compare(trial)
