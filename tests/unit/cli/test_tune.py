"""What ``loaderwatch tune`` says of its trials."""

from __future__ import annotations

import pytest

from loaderwatch.cli.tune import change_of, report
from loaderwatch.core.facts import LoaderTrial, Tuning


def trial(workers: int, speed: float, wait: float | None = None, prefetch: int = 2) -> LoaderTrial:
    return LoaderTrial(
        num_workers=workers,
        prefetch_factor=prefetch if workers else None,
        batches_per_s=speed,
        start_s=0.1,
        batches=100,
        wait_ratio=wait,
    )


def tuning(
    *trials: LoaderTrial, step_s: float | None, now: int, advised: int, prefetch: int | None = None
) -> Tuning:
    return Tuning(
        loader="train_loader",
        num_workers=now,
        step_s=step_s,
        trials=list(trials),
        advised_workers=advised,
        advised_prefetch=prefetch,
    )


def test_a_setting_that_was_only_tried_with_steps_is_compared_with_them() -> None:
    """Without workers nothing is read while a step runs: 41 batches/s of reading are 15 of training."""
    found = tuning(
        trial(0, 41), trial(1, 36), trial(1, 21, 0.09), trial(2, 24, 0.03), step_s=0.04, now=0, advised=2
    )
    assert change_of(found) == (2, None)
    assert "Use DataLoader(…, num_workers=2): 24 batches/s, 16 now." in report(found)


@pytest.mark.parametrize(
    ("found", "change"),
    [
        (tuning(trial(2, 100), trial(4, 103), step_s=None, now=2, advised=4), None),
        (tuning(trial(2, 100), trial(4, 160), step_s=None, now=2, advised=4), (4, None)),
        (tuning(trial(2, 100), step_s=None, now=2, advised=2), None),
        (tuning(trial(8, 100), trial(2, 99), step_s=None, now=8, advised=2), (2, None)),
        (
            tuning(
                trial(2, 30),
                trial(2, 20, 0.2),
                trial(2, 25, 0.0, 8),
                step_s=0.04,
                now=2,
                advised=2,
                prefetch=8,
            ),
            (2, 8),
        ),
        (tuning(trial(4, 200), trial(2, 90), step_s=0.02, now=4, advised=2), (2, None)),
        (tuning(trial(4, 30), trial(0, 500), step_s=0.02, now=4, advised=0), (0, None)),
    ],
)
def test_what_is_to_change(found: Tuning, change: tuple[int, int | None] | None) -> None:
    assert change_of(found) == change
    said = "\n".join(report(found))
    assert ("Nothing to change" in said) is (change is None)
