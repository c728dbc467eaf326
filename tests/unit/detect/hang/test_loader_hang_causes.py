"""Which loader a hang waits for, and for whom."""

from __future__ import annotations

from typing import Any

import pytest

from loaderwatch.core.facts import PhaseName
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.hang.rank_positions import places
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.texts import say
from tests.unit.detect import stacks
from tests.unit.detect.build import T0, RankBuilder, S, loader, run


def hang(phase: PhaseName, number: int | None = 1, *, worker: bool = True) -> Finding:
    """A rank with a training loader (0) and a validation loader (1) that waits for one of them for 400 s."""
    builder = RankBuilder(loaders=[loader(), loader(loader=1, name="val_loader", role="eval")])
    for _ in range(50):
        builder.step(0.001, 0.05, ready=4)
    builder.open(phase, 400.0, loader=number, batch=12, awaited_worker=1)
    if worker:
        facts = {"loader": number, "sample_index": 7, "wchan": "sk_wait_data"}
        builder.worker(1, "fetch", 400.0, sample_age=399.0, **facts)
    (finding,) = [found for found in detect(RunEvidence(run(builder))) if found.code == "hung"]
    return finding


def test_a_validation_is_not_called_training() -> None:
    finding = hang("wait")
    assert finding.title.startswith(
        "Training hangs in an evaluation: worker 1 (pid 201) of val_loader has been stuck for 6 min 39 s in"
        " dataset[7]"
    )
    assert finding.cause.startswith("The evaluation has waited 6 min 40 s for batch 12 of val_loader.")
    assert {item.label: item.value for item in finding.evidence}["loader"] == "val_loader"


def test_the_training_loader_is_named_among_several() -> None:
    finding = hang("wait", 0)
    assert finding.title.startswith("Training hangs: worker 1 (pid 201) of train_loader has been stuck")
    assert finding.cause.startswith(
        "The training loop has waited 6 min 40 s for batch 12 of train_loader; 99 %"
    )


@pytest.mark.parametrize(
    ("phase", "number", "title", "cause"),
    [
        ("wait", 1, "no batch has come from val_loader for", "for batch 12 of val_loader"),
        ("iter", 1, "iter(val_loader) has not returned for", "for iter(val_loader)"),
        (
            "teardown",
            1,
            "the end of the epoch of val_loader has not",
            "for the end of an epoch of val_loader",
        ),
        ("wait", None, "no batch has come from the loader for", "for batch 12 of the loader"),
    ],
)
def test_what_it_waits_for_is_said_by_its_phase(
    phase: PhaseName, number: int | None, title: str, cause: str
) -> None:
    finding = hang(phase, number, worker=False)
    assert title in finding.title
    assert cause in finding.cause


def test_where_ranks_stand_names_the_loader_too() -> None:
    waits = RankBuilder(0, 2).step(0.001, 0.05)
    waits.loaders.append(loader(loader=1, name="val_loader", role="eval"))
    waits.open("wait", 400.0, loader=1)
    other = RankBuilder(1, 2).step(0.001, 0.05).open("step", 400.0)
    other.stack(-1, 101, stacks.main_in("barrier"))
    assert "next(val_loader)" in {
        say(place.stands) for place in places(RunEvidence(run(waits, other), Limits()))
    }


def with_idle_validation(number: int, **span: Any) -> RankBuilder:
    """A loop that waits for ``number`` training workers while the validation's workers are idle."""
    loaders = [loader(num_workers=number), loader(loader=1, name="val_loader", role="eval")]
    builder = RankBuilder(loaders=loaders)
    for _ in range(50):
        builder.step(0.001, 0.05, ready=4)
    builder.open("wait", 40.0, batch=12, awaited_worker=0, **span)
    for worker in range(2):
        builder.worker(worker, "idle", 39.0, loader=1, pid=300 + worker)
    return builder


def test_idle_workers_of_another_loader_have_lost_no_message() -> None:
    """The training process reads itself, and stands in a sample."""
    since = {
        "sample_index": 7,
        "sample_since_ns": T0 + int(2.6 * S),
        "wchan": "sk_wait_data",
        "os_state": "S",
    }
    (finding,) = detect(RunEvidence(run(with_idle_validation(0, **since))))
    assert finding.scenario == "S36"
    assert (
        "the training process (pid 100) has been stuck for 40 s in dataset[7] of train_loader"
        in finding.title
    )
    assert "idle workers" not in {item.label for item in finding.evidence}


def test_only_the_idle_workers_of_the_loader_are_counted() -> None:
    builder = with_idle_validation(3)
    for worker in range(3):
        builder.worker(worker, "idle", 39.0)
    (finding,) = detect(RunEvidence(run(builder)))
    assert finding.title == (
        "Training hangs: no batch has come from train_loader for 40 s, although all 3 workers are idle."
    )
    assert {item.label: item.value for item in finding.evidence}["idle workers"] == 3


def test_a_queue_that_stays_empty_names_the_loader_that_fills_it() -> None:
    """Of several only one is read by a thread."""
    builder = RankBuilder(loaders=[loader(reader="fill"), loader(loader=1, name="val_loader", role="eval")])
    for _ in range(50):
        builder.step(0.001, 0.05, ready=4)
    builder.open("step", 40.0, os_state="S", wchan="futex_wait_queue").stack(-1, 100, stacks.QUEUE)
    (finding,) = detect(RunEvidence(run(builder.half_a_minute())))
    assert finding.scenario == "S41"
    assert "its queue stays empty: thread fill, which reads train_loader, delivers nothing" in finding.title
