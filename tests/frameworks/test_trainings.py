"""Other people's trainings, bare and watched: equal losses, output and end, and a right report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.frameworks.environments import missing
from tests.frameworks.laboratory import Laboratory, Seen
from tests.frameworks.trainings import ATTACH, CALLBACK, RUN, TRAININGS, Training

pytestmark = pytest.mark.timeout(900)

TRUE_OF_TOYS = frozenset(("input-bound", "epoch-boundary", "slow-evaluation"))
"""Steps of a millisecond and epochs of ten batches do wait for data: that may be said, and nothing else."""


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    """With a server for all of them."""
    with Laboratory(tmp_path_factory.mktemp("frameworks")) as made:
        yield made


def trials() -> list[Any]:
    """Every training in each way; `make test` runs the quick ones under ``loaderwatch run``."""
    return [
        pytest.param(
            training,
            way,
            id=f"{training.id}-{way}",
            marks=[] if training.quick and way == RUN else [pytest.mark.long],
        )
        for training in TRAININGS
        for way in (RUN, ATTACH, CALLBACK)
        if way != CALLBACK or training.callback
    ]


@pytest.mark.parametrize(("training", "way"), trials())
def test_as_bare_and_told_right(training: Training, way: str, laboratory: Laboratory) -> None:
    why_not = missing(training.environment, training.packages)
    if why_not:
        pytest.skip(why_not)
    seen = laboratory.compare(training, way)
    if way == RUN and training.without:
        (told,) = seen.told
        assert training.without in told
        return
    expected = {
        "steps": training.steps,
        "loaders": [[(one.role, one.epochs) for one in training.loaders]] * training.ranks,
        "phases": sorted(training.phases),
        "alarms": [],
    }
    assert what_is_told(training, seen) == expected
    if way == CALLBACK:
        progress = seen.summary["progress"]
        assert {name: progress[name] for name, _ in training.progress} == dict(training.progress)


def what_is_told(training: Training, seen: Seen) -> dict[str, Any]:
    """The server's answers, in the words of the table."""
    return {
        "steps": seen.summary["steps"],
        "loaders": [seen.loaders(rank) for rank in range(training.ranks)],
        "phases": sorted(seen.phases),
        "alarms": [
            finding["title"]
            for finding in seen.findings
            if finding["severity"] != "info" and finding["code"] not in TRUE_OF_TOYS
        ],
    }
