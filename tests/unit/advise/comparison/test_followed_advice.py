"""Whether a later run followed an advice, and what it gained."""

from __future__ import annotations

from typing import Any

import pytest

from loaderwatch.advise.comparison.followed_advice import followed, is_followed, names_settings
from loaderwatch.advise.comparison.settings import changed
from loaderwatch.core.answers import Finding
from loaderwatch.core.facts import LoaderInfo, ProcessInfo
from tests.unit.advise.comparison.test_compare import observed, process


def finding(**more: Any) -> Finding:
    facts: dict[str, Any] = {
        "id": "a.1", "key": "input-bound:0:steady", "code": "input-bound", "scenario": "S02",
        "severity": "critical",
        "state": "resolved", "confidence": 0.9, "rank": 0, "host": None, "loader": 0, "worker": None,
        "pid": None,
        "sample_indices": [], "began_at": 10.0, "ended_at": 300.0, "title": "t", "cause": "c",
        "advice": "Raise num_workers 2 → 8: reads are slow.",
        "evidence": [], "lost_s": 60.0, "gain_ceiling_ratio": 0.75, "stacks": [],
    }  # fmt: skip
    return Finding(**(facts | more))


def two_loaders(train: int, val: int, **more: Any) -> ProcessInfo:
    loaders = [
        LoaderInfo(loader=0, name="train_loader", role="train", class_name="DataLoader", num_workers=train),
        LoaderInfo(loader=1, name="val_loader", role="eval", class_name="DataLoader", num_workers=val),
    ]
    facts: dict[str, Any] = {"pid": 1, "rank": 0, "local_rank": 0, "world_size": 1, "started_ns": 0}
    return ProcessInfo(**(facts | {"loaders": loaders} | more))


def did(found: Finding, a: ProcessInfo, b: ProcessInfo) -> bool:
    return is_followed(found, [a], changed(([a], [], {}), ([b], [], {})))


def test_the_loader_of_the_finding_counts() -> None:
    assert did(finding(), two_loaders(2, 2), two_loaders(6, 2))
    assert not did(finding(), two_loaders(2, 2), two_loaders(2, 6)), "another loader"
    assert did(finding(key="slow-evaluation:1", loader=1), two_loaders(2, 2), two_loaders(2, 6))
    assert not did(finding(), two_loaders(2, 2), two_loaders(1, 2)), "the other way"


def test_without_a_loader_any_of_its_rank_does() -> None:
    assert did(finding(key="slow-step:S17", loader=None), two_loaders(2, 2), two_loaders(2, 6))
    assert not did(finding(key="slow-step:S17", loader=None, rank=3), two_loaders(2, 2), two_loaders(2, 6)), (
        "no such rank"
    )


def test_a_variable_of_the_environment_is_followed_too() -> None:
    advised = finding(advice="Set OMP_NUM_THREADS=1 before Python starts.")
    assert did(advised, two_loaders(2, 2), two_loaders(2, 2, thread_limits={"OMP_NUM_THREADS": "1"}))


def test_only_what_costs_time_is_seen_in_a_speed() -> None:
    assert names_settings(finding())
    assert not names_settings(finding(lost_s=None)), "too small a /dev/shm, a crash"
    assert not names_settings(finding(advice="Make what is read smaller."))


def test_it_says_before_after_and_what_was_promised() -> None:
    a, b = observed("a", 12.0), observed("b", 47.0, processes=[process(num_workers=8)])
    found = followed(finding(), a, b)
    assert found is not None
    assert (found.run_id, found.measure, found.judgement) == ("b", "steps_per_s", "better")
    assert (found.before_per_s, found.after_per_s) == pytest.approx((12.0, 47.0), rel=0.01)
    assert found.promised_per_s == pytest.approx(48.0, rel=0.01)
    assert found.sentence == "followed: 12 → 47 steps/s, promised at most 48"


@pytest.mark.parametrize("ceiling", [None, 1.0])
def test_where_nothing_was_promised_nothing_is_said_of_it(ceiling: float | None) -> None:
    found = followed(finding(gain_ceiling_ratio=ceiling), observed("a", 12.0), observed("b", 9.0))
    assert found is not None
    assert (found.promised_per_s, found.judgement) == (None, "worse")
    assert found.sentence == "followed: 12 → 9 steps/s"


def test_noise_is_named_as_that() -> None:
    found = followed(finding(), observed("a", 12.0), observed("b", 12.1))
    assert found is not None
    assert found.sentence == "followed: 12 → 12.1 steps/s, promised at most 48; not more than noise"


def test_steps_of_other_sizes_are_compared_by_samples() -> None:
    found = followed(
        finding(), observed("a", 12.0), observed("b", 12.0, processes=[process(64, num_workers=8)])
    )
    assert found is not None
    assert found.measure == "samples_per_s"
    assert found.sentence == "followed: 384 → 768 samples/s, promised at most 1,536"


def test_too_little_tells_nothing() -> None:
    assert followed(finding(), observed("a", 12.0), observed("b", 47.0, values=4)) is None
    assert followed(finding(), observed("a", 12.0), observed("b", 47.0, processes=[process(None)])) is None
