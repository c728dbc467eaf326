"""Conditions of --fail-if."""

from __future__ import annotations

import pytest

from loaderwatch.advise.comparison.compare import comparison, parse
from loaderwatch.core.errors import ConfigError
from loaderwatch.texts import say
from tests.unit.advise.comparison.test_compare import observed

SLOWER = comparison(observed("a", 12.0, wait=0.05), observed("b", 9.0, wait=0.3))


@pytest.mark.parametrize(
    "text",
    ["data_wait_ratio > 0.1", "data_wait_ratio>=10%", "steps_per_s.change < -5 %",
     "data_wait_ratio.change > 0.2", "steps_per_s <= 9.5"],
)  # fmt: skip
def test_it_holds(text: str) -> None:
    why = parse(text).broken_by(SLOWER)
    assert why is not None
    assert say(why).startswith(f"Failed: {' '.join(text.split())}: ")


@pytest.mark.parametrize("text", ["data_wait_ratio > 0.5", "steps_per_s.change < -50%", "steps_per_s < 8"])
def test_it_does_not(text: str) -> None:
    assert parse(text).broken_by(SLOWER) is None


def test_what_is_not_known_fails() -> None:
    why = parse("gpu_starved_ratio > 0.1").broken_by(SLOWER)
    assert why is not None
    assert say(why) == "Failed: gpu_starved_ratio > 0.1: gpu_starved_ratio is not known"


def test_a_change_within_the_noise_does_not_fail() -> None:
    noisy = comparison(observed("a", 12.0, noise=0.3), observed("b", 11.9, noise=0.3))
    change = next(each.change for each in noisy.measures if each.measure == "steps_per_s")
    assert change is not None
    assert parse(f"steps_per_s.change > {change - 0.01:f}").broken_by(noisy) is None


@pytest.mark.parametrize(
    "text", ["", "faster", "data_wait_ratio = 0.1", "data_wait_ratio > much", "speed > 1"]
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--fail-if"):
        parse(text)
