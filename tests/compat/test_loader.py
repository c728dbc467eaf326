"""The loader's surface: every case of the modules below, bare and watched, with equal results."""

from __future__ import annotations

import pytest

from tests.compat.harness import Laboratory, Trial, trials_of


@pytest.mark.parametrize("trial", trials_of("tests.compat.cases_loader"))
def test_loader(trial: Trial, laboratory: Laboratory) -> None:
    laboratory.compare(trial)
