"""A script that follows the advice of its finding: it gets faster, and not by more than was promised."""

from __future__ import annotations

import pytest

from tests.scenarios.gain import ADVICE, Gain, measure

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def gains(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Gain]:
    """Every scenario as it is, and with its advice."""
    return measure(list(ADVICE), tmp_path_factory.mktemp("advice"))


@pytest.mark.parametrize("scenario", list(ADVICE))
def test_advice_gives_what_it_promises(gains: dict[str, Gain], scenario: str) -> None:
    gain = gains[scenario]
    assert not gain.wrong, (gain.wrong, gain.report)
