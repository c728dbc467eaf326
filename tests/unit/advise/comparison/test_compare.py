"""The comparison of two runs made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loaderwatch.advise.comparison.compare import MEASURES, Observed, comparison
from loaderwatch.core.answers import ComparedRun, Comparison, Difference
from loaderwatch.core.facts import LoaderInfo, ProcessInfo


def run(name: str, **more: Any) -> ComparedRun:
    facts: dict[str, Any] = {
        "run_id": name, "name": "train.py", "state": "finished", "started_at": 0.0, "began_at": 6.0,
        "seconds": 300.0, "world_size": 1, "steps": 3000,
    }  # fmt: skip
    return ComparedRun(**(facts | more))


def process(batch_size: int | None = 32, num_workers: int = 2) -> ProcessInfo:
    loader = LoaderInfo(
        loader=0,
        name="train_loader",
        role="train",
        class_name="DataLoader",
        batch_size=batch_size,
        num_workers=num_workers,
    )
    return ProcessInfo(pid=1, rank=0, local_rank=0, world_size=1, started_ns=0, loaders=[loader])


def observed(
    name: str, speed: float, *, noise: float = 0.02, wait: float = 0.1, values: int = 40, **more: Any
) -> Observed:
    rng = np.random.default_rng(sum(map(ord, name)))
    spread = 1 + noise * (drawn - drawn.mean() if len(drawn := rng.normal(size=values)) else drawn)
    facts: dict[str, Any] = {
        "run": run(name),
        "values": {
            "steps_per_s": speed * spread,
            "data_wait_ratio": wait * spread,
            "startup_s": np.array([2.0]),
        },
        "processes": [process()],
    }
    return Observed(**(facts | more))


def measure(found: Comparison, name: str) -> Difference:
    return next(each for each in found.measures if each.measure == name)


def test_what_is_faster_says_by_how_much() -> None:
    found = comparison(
        observed("a", 12.0, wait=0.45), observed("b", 24.0, wait=0.1, processes=[process(num_workers=8)])
    )
    assert found.judgement == "better"
    assert found.title.startswith("B is 100 % faster than A: 12 → 24 steps/s (95 % interval +9")
    speed, wait = measure(found, "steps_per_s"), measure(found, "data_wait_ratio")
    assert speed.change_low is not None
    assert speed.change_low > 0.9
    assert (wait.judgement, wait.said) == ("better", "more than noise: better")
    assert wait.change == pytest.approx(-0.35, abs=0.01), "points, not a share"
    assert [(each.where, each.what, each.a, each.b) for each in found.settings] == [
        ("train_loader", "num_workers", "2", "8")
    ]


def test_slower_is_worse() -> None:
    found = comparison(observed("a", 24.0), observed("b", 12.0))
    assert found.judgement == "worse"
    assert "slower" in found.title


def test_the_same_is_noise() -> None:
    found = comparison(observed("a", 12.0, noise=0.2), observed("b", 12.5, noise=0.2))
    assert found.judgement == "noise"
    assert found.title.startswith("No difference in speed beyond noise: ")
    assert measure(found, "steps_per_s").said == "not more than noise"


def test_what_another_day_does_is_noise_however_narrow_the_interval() -> None:
    assert comparison(observed("a", 12.0, noise=1e-4), observed("b", 12.2, noise=1e-4)).judgement == "noise"
    assert comparison(observed("a", 12.0, noise=1e-4), observed("b", 12.6, noise=1e-4)).judgement == "better"


def test_with_few_values_nothing_is_said() -> None:
    found = comparison(observed("a", 12.0, values=3), observed("b", 24.0))
    assert (found.judgement, found.title[:33]) == ("unknown", "Too little was measured to compar")
    assert measure(found, "startup_s").said == "too little was measured to tell"
    nothing = comparison(observed("a", 1.0, values=0), observed("b", 1.0))
    assert nothing.title == "Too little is known of the speed of these runs to compare it."


def test_other_batches_are_compared_by_samples() -> None:
    a, b = observed("a", 12.0), observed("b", 8.0, processes=[process(batch_size=64)])
    found = comparison(a, b)
    assert "samples/s" in found.title
    assert found.judgement == "better"
    assert found.notes == ["Samples of a step: 32 in A, 64 in B. Compare samples per second, not steps."]


def test_what_spoils_a_comparison_is_noted() -> None:
    short = observed("b", 12.0, run=run("b", state="live", seconds=20.0, world_size=2))
    assert comparison(observed("a", 12.0), short).notes[1:] == [
        "Ranks: 1 in A, 2 in B.",
        "B was measured for 20 s only.",
        "B still runs; its numbers go on changing.",
    ]


def test_measures_come_in_their_order() -> None:
    names = [each.measure for each in comparison(observed("a", 12.0), observed("b", 12.0)).measures]
    assert names == [name for name in MEASURES if name in names]
    assert "gpu_starved_ratio" not in names, "of neither run it is known"
