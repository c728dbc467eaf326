"""``loaderwatch.tune`` over real loaders."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import loaderwatch
from tests.unit.agent.tuning.test_trial import Broken, Slow


def test_a_loader_that_waits_gets_workers() -> None:
    """A batch takes 20 ms to read, and a step takes 15."""
    found = loaderwatch.tune(DataLoader(Slow(), batch_size=2), step_s=0.015, seconds=4)
    assert found.num_workers == 0
    assert found.trials[0].num_workers == 0
    assert found.advised_workers is not None
    assert found.advised_workers >= 1
    assert found.error is None


def test_random_numbers_stay_as_they_were() -> None:
    loader: Any = DataLoader(Slow(64), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(3))

    def drawn() -> tuple[Any, ...]:
        return (
            torch.rand(3).tolist(),
            random.random(),
            np.random.rand(),
            torch.rand(2, generator=loader.generator).tolist(),
        )

    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    expected = drawn()
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    loader.generator.manual_seed(3)
    loaderwatch.tune(loader, seconds=0.5)
    assert drawn() == expected


def test_what_the_loader_raises_is_the_answer() -> None:
    found = loaderwatch.tune(DataLoader(Broken(), batch_size=2), seconds=1)
    assert found.advised_workers is None
    assert "KeyError" in str(found.error)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"loader": [1, 2]}, TypeError, "not a list"),
        ({"step_s": 0.0}, ValueError, "step_s is 0.0"),
        ({"seconds": float("nan")}, ValueError, "seconds is nan"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        loaderwatch.tune(**{"loader": DataLoader(Slow()), **arguments})
