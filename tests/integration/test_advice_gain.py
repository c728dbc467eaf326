"""The advice of a finding, done to the script that it was given for: time comes back, and no more than was promised."""

from __future__ import annotations

import pytest

from tests.scenarios.gain import ADVICE, TOLERANCE, USUAL_TOLERANCE, Gain, measure

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

MEANINGFUL = 0.5
"""Of the ceiling: what must come back at least."""
NO_GAIN = ("S03",)
"""Its advice frees memory and CPUs and says itself that it brings no throughput; it must not cost much."""
COSTS_AT_MOST = 0.15


@pytest.fixture(scope="module")
def gains(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Gain]:
    """Every scenario as it is, and with its advice."""
    return measure(list(ADVICE), tmp_path_factory.mktemp("advice"), 14)


@pytest.mark.parametrize("scenario", list(ADVICE))
def test_advice_gives_what_it_promises(gains: dict[str, Gain], scenario: str) -> None:
    gain = gains[scenario]
    assert gain.finding is not None, gain.report
    assert gain.changes is not None, gain.finding["advice"]
    assert gain.ratio is not None, gain.report
    assert gain.ceiling is not None, gain.finding
    assert gain.ratio <= gain.ceiling + TOLERANCE.get(scenario, USUAL_TOLERANCE), gain
    if scenario in NO_GAIN:
        assert gain.ratio >= -COSTS_AT_MOST, gain
    else:
        assert gain.ratio >= MEANINGFUL * gain.ceiling > 0, gain
    assert scenario not in gain.remaining, gain.report
