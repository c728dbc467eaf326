"""One laboratory for all tests that were chosen: each child process runs just those cases, once."""

from __future__ import annotations

import pytest

from tests.compat.harness import Laboratory, Trial


@pytest.fixture(scope="session")
def laboratory(request: pytest.FixtureRequest) -> Laboratory:
    """Runs the chosen trials."""
    specs = (getattr(item, "callspec", None) for item in request.session.items)
    params = (spec.params.get("trial") for spec in specs if spec is not None)
    return Laboratory(trial for trial in params if isinstance(trial, Trial))
