"""Workers that become slower, in runs that are played to the moment at which their loop waits."""

from __future__ import annotations

import re

import pytest

from tests.unit.detect.played import Played, noise, played, read

STEP_S = 0.05


def rising(seconds: float, until_s: float, every_s: float = 1.0) -> Played:
    """Fetches rise linearly, with noise, from two thirds of the loop's pace to all of it at ``until_s``."""
    factor = noise(0.15)
    at_first = 2 * STEP_S * 0.6
    per_s = (2 * STEP_S - at_first) / until_s
    return played(read(seconds, lambda at_s: (at_first + per_s * at_s) * factor()), every_s)


@pytest.mark.parametrize(("seconds", "every_s"), [(80, 1.0), (900, 3.0)], ids=["a-minute", "minutes"])
def test_it_is_told_before_the_loop_waits_for_the_first_time(seconds: float, every_s: float) -> None:
    run = rising(seconds, 0.9 * seconds, every_s)
    at_s, finding = run.first("headroom")
    assert (finding.scenario, finding.severity) == ("S58", "info")
    assert at_s < 0.75 * run.waits_at_s
    assert all(found.severity == "info" for at, found in run.found if at <= at_s)
    (left_s,) = [float(one.value or 0) for one in finding.evidence if one.label == "until the loop waits"]
    assert at_s + left_s == pytest.approx(0.9 * seconds, rel=0.35)
    assert "the loop will wait for data in about" in finding.title
    assert re.search(r"get slower: .* → .* per batch in .*; ", finding.title)


def test_what_began_lately_is_seen_in_a_long_run() -> None:
    factor = noise(0.1)
    began_s = 1500.0
    slower = played(
        read(1800, lambda at_s: (0.06 + max(0.0, at_s - began_s) * 0.00025) * factor()), every_s=5.0
    )
    at_s, _ = slower.first("headroom")
    assert began_s < at_s < slower.waits_at_s


def _sorted_by_length(at_s: float) -> float:
    return 0.3 + 0.6 * (at_s % 40) / 40  # of the loop's time, in epochs of about 40 s


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda n: read(400, lambda at_s: 0.07 * n(0.5)), id="samples-of-all-sizes"),
        pytest.param(
            lambda n: read(300, lambda at_s: (0.04 + 0.05 * 2.718 ** (-at_s / 30)) * n(0.1)),
            id="a-cold-cache",
        ),
        pytest.param(
            lambda n: read(200, lambda at_s: 0.07 * n(0.1), lambda at_s: 0.2 if at_s < 10 else 0.05),
            id="warm-up",
        ),
        pytest.param(lambda n: read(200, lambda at_s: 0.08 * n(0.2), batches=100), id="epochs"),
        pytest.param(lambda n: read(200, lambda at_s: (0.04 if at_s < 90 else 0.08) * n(0.1)), id="a-jump"),
        pytest.param(
            lambda n: read(300, lambda at_s: 0.1 * _sorted_by_length(at_s) * n(0.1), batches=780),
            id="sorted-by-length",
        ),
        pytest.param(
            lambda n: read(
                300, lambda at_s: (0.06 + 0.0004 * at_s) * n(0.1), lambda at_s: 0.05 * (1 + at_s / 150)
            ),
            id="steps-grow-as-well",
        ),
        pytest.param(lambda n: read(300, lambda at_s: (0.03 + 0.00001 * at_s) * n(0.05)), id="far-away"),
        pytest.param(lambda n: read(300, lambda at_s: 0.07 + 0.02 * (int(at_s / 20) % 2)), id="by-turns"),
    ],
)  # fmt: skip
def test_look_alikes_are_silent(run) -> None:  # type: ignore[no-untyped-def]
    for seed in (0, 1):
        factors: dict[float, object] = {}

        def factor(share: float) -> float:
            return factors.setdefault(  # type: ignore[operator,no-any-return]  # noqa: B023
                share,
                noise(share, seed),  # noqa: B023
            )()

        assert "headroom" not in played(run(factor), 2.0).codes
