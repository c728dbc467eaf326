"""S24: memory, before it runs out."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from loaderwatch.core.facts import SpanInfo
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from tests.unit.detect.build import RankBuilder, S, keeps_up, loader, of_scenario, run

GB, MB = 1e9, 1e6


def with_memory(
    per_s: float, *, seconds: int = 30, workers: int = 2, column: str = "anonymous_bytes", plateau: int = 999
) -> RankBuilder:
    """Workers whose memory grows, once a second."""
    builder = keeps_up(batches=None)
    for second in range(seconds):
        builder.step(0.0, 1.0)
        for worker in range(workers):
            value = 3e8 + per_s * min(second, plateau)
            builder.process(worker=worker, pid=200 + worker, cpu=0.5, **{column: value})
    return builder


@pytest.mark.parametrize(
    ("per_s", "available", "severity"),
    [
        (20 * MB, 20 * GB, "warning"),  # 40 MB/s: 500 s
        (20 * MB, 4 * GB, "critical"),
        (20 * MB, 400 * GB, None),  # hours
        (0.5 * MB, 0.5 * GB, None),  # nothing worth a word yet
        (0.0, 1 * GB, None),
    ],
)
def test_workers_that_grow(per_s: float, available: float, severity: str | None) -> None:
    window = run(with_memory(per_s), host={"memory_available_bytes": available})
    finding = of_scenario(detect(RunEvidence(window)), "S24")
    assert (finding.severity if finding else None) == severity
    if finding is not None:
        values = {item.label: item.value for item in finding.evidence}
        eta = values["until it is used up"]
        assert isinstance(eta, float)
        assert eta == pytest.approx(available / (2 * per_s), rel=0.05)


def test_the_containers_limit_counts_when_it_is_tighter() -> None:
    host = {"memory_available_bytes": 100 * GB, "memory_limit_bytes": 8 * GB, "memory_used_bytes": 6 * GB}
    finding = of_scenario(detect(RunEvidence(run(with_memory(20 * MB), host=host))), "S24")
    assert finding is not None
    assert "the container's memory limit" in finding.title


def test_copy_on_read_shows_in_the_proportional_share_only() -> None:
    finding = of_scenario(
        detect(
            RunEvidence(
                run(with_memory(20 * MB, column="pss_bytes"), host={"memory_available_bytes": 10 * GB})
            )
        ),
        "S24",
    )
    assert finding is not None
    assert "reference count" in finding.cause


def test_first_touches_level_off_and_are_no_leak() -> None:
    window = run(with_memory(30 * MB, plateau=15), host={"memory_available_bytes": 5 * GB})
    assert of_scenario(detect(RunEvidence(window)), "S24") is None


def test_an_epoch_that_ends_before_is_a_remark() -> None:
    builder = with_memory(20 * MB)
    builder.loaders = [loader(batches=1000, persistent_workers=False)]
    builder.span = SpanInfo(
        rank=0, worker=-1, pid=100, phase="step", since_ns=builder.now_ns, loader=0, epoch=3, batch=900
    )
    finding = of_scenario(detect(RunEvidence(run(builder, host={"memory_available_bytes": 20 * GB}))), "S24")
    assert finding is not None
    assert finding.severity == "info"


def test_the_training_process_itself_may_grow() -> None:
    builder = keeps_up()
    for second in range(30):
        builder.step(0.0, 1.0)
        builder.process(worker=-1, pid=100, cpu=0.9, anonymous_bytes=1e9 + second * 40 * MB)
    finding = of_scenario(detect(RunEvidence(run(builder, host={"memory_available_bytes": 20 * GB}))), "S24")
    assert finding is not None
    assert ".item()" in finding.advice
    assert re.search(
        r"based on 2\d s of training, 2\d steps: compared from step to step, the lowest memory use of"
        r" the training process \(pid 100\) rose from 1.\d GB to 2.\d GB",
        finding.cause,
    )


def memory_of_steps(
    held: Callable[[int, float], float], *, steps: int, step_s: float, available: float = 10 * GB
) -> Finding | None:
    """What is found of a process that holds ``held(step, part of the step)`` bytes, read once a second."""
    builder = RankBuilder(loaders=[loader(num_workers=0, batches=None)])
    for number in range(steps):
        began_ns = builder.now_ns
        for second in range(int(step_s)):
            builder.now_ns = began_ns + second * S
            builder.process(worker=-1, pid=100, cpu=0.9, anonymous_bytes=held(number, second / step_s))
        builder.now_ns = began_ns
        builder.step(0.0, step_s)
    return of_scenario(detect(RunEvidence(run(builder, host={"memory_available_bytes": available}))), "S24")


@pytest.mark.parametrize("step_s", [3.0, 14.0])
def test_what_each_step_gives_back_is_no_leak(step_s: float) -> None:
    steps = int(110 / step_s)
    assert memory_of_steps(lambda step, part: 1e9 + part * GB, steps=steps, step_s=step_s) is None
    # The same with a graph that is kept of each step.
    kept = memory_of_steps(
        lambda step, part: 1e9 + step * step_s * 10 * MB + part * GB, steps=steps, step_s=step_s
    )
    assert kept is not None
    assert kept.severity == "warning"
    assert re.search(
        r"based on [\w ]+ of training, \d+ steps: .* the lowest memory use of the training process",
        kept.cause,
    )


def test_only_a_run_that_trains_is_measured() -> None:
    """A data set that is loaded first, and an evaluation that keeps its outputs until its end."""
    loads = RankBuilder(loaders=[loader(num_workers=0)])
    for second in range(40):
        loads.now_ns += S
        loads.process(worker=-1, pid=100, cpu=0.9, anonymous_bytes=1e9 + second * 50 * MB)
    host = {"memory_available_bytes": 2 * GB}
    assert of_scenario(detect(RunEvidence(run(loads, host=host))), "S24") is None
    for _ in range(10):
        loads.step(0.0, 1.0)
        loads.process(worker=-1, pid=100, cpu=0.9, anonymous_bytes=3e9)
    assert of_scenario(detect(RunEvidence(run(loads, host=host))), "S24") is None
    evaluation = loader(loader=1, name="val_loader", role="eval")
    loads.loaders.append(evaluation)
    for second in range(40):
        loads.step(0.0, 1.0, loader=1)
        loads.process(worker=-1, pid=100, cpu=0.9, anonymous_bytes=3e9 + second * 50 * MB)
    assert of_scenario(detect(RunEvidence(run(loads, host=host))), "S24") is None


@pytest.mark.parametrize(("streams", "severity"), [(True, "info"), (False, "warning")])
def test_a_buffer_that_fills_has_more_time(streams: bool, severity: str) -> None:
    """1.2 GB of 20 GB were added: a stream may still fill its shuffle buffer."""
    builder = with_memory(20 * MB)
    builder.loaders = [loader(batches=None, iterable_dataset=streams)]
    finding = of_scenario(detect(RunEvidence(run(builder, host={"memory_available_bytes": 20 * GB}))), "S24")
    assert finding is not None
    assert finding.severity == severity


def test_a_few_long_steps_that_rise_by_chance_are_no_leak() -> None:
    """On a busy machine the first reading of a step comes later and later, when it already holds more."""
    late = [0.1, 0.2, 0.3, 0.4, 0.2, 0.1, 0.5, 0.2]

    def held(step: int, part: float) -> float:
        return 1e9 + max(late[step], part) * GB

    for steps in (4, 5, 8):
        assert memory_of_steps(held, steps=steps, step_s=14.0) is None


@pytest.mark.parametrize("step_s", [20.0, 24.0, 29.0])
def test_a_leak_in_a_few_long_steps_is_told(step_s: float) -> None:
    """The window holds four or five such steps. Each keeps 500 MB, and takes and gives back 300 MB."""
    steps = int(119 / step_s)

    def leaks(step: int, part: float) -> float:
        return 1e9 + step * 500 * MB + part * 300 * MB

    found = memory_of_steps(leaks, steps=steps, step_s=step_s, available=5 * GB)
    assert found is not None
    assert found.severity == "critical"
    # Growth that is no more than what a step gives back may be a matter of when it was read.
    late = [0.1, 0.2, 0.3, 0.4, 0.5]
    for count in (4, 5):
        chance = memory_of_steps(
            lambda step, part: 1e9 + max(late[step], part) * GB, steps=count, step_s=step_s, available=5 * GB
        )
        assert chance is None


def test_few_short_stretches_do_not_tell() -> None:
    """First touches of memory rise as straight for ten seconds."""

    def rises(step: int, part: float) -> float:
        return 1e9 + (step + part) * 200 * MB

    assert memory_of_steps(rises, steps=7, step_s=2.0, available=5 * GB) is None
    assert memory_of_steps(rises, steps=9, step_s=2.0, available=5 * GB) is not None
