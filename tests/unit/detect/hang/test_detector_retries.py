"""A sample that is retried forever: reported at its limit, with what the process does and where it reads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

import msgspec
import pytest

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.shared_thresholds import Limits
from tests.unit.detect.build import RankBuilder, S, loader, run

AGE_S = 32  # the limit is 30
LOOKS = {
    "R": {"state": ord("R"), "timer_wait": 0.0},
    "timer": {"timer_wait": 1.0},
    "socket": {"timer_wait": 0.0},
}


def hangs(
    looks: Sequence[str],
    *,
    cpu: float = 0.5,
    chars_per_s: float = 15_000.0,
    stored_per_s: float = 0.0,
    network_per_s: float = 0.0,
    sample_age: float = 31.0,
    age: int = AGE_S,
    workers: int = 2,
    alive: bool = True,
) -> list[Finding]:
    """The finding for a loop that waits for one sample; its process shows one of ``looks`` each second."""
    rank = RankBuilder(loaders=[loader(num_workers=workers)])
    for number in range(100):
        rank.fetch(number % max(1, workers), 0.03, cpu=0.5).step(0.001, 0.05, ready=4)
    rank.open("wait", age, awaited_worker=1)
    worker, pid = (1, 201) if workers else (-1, 100)
    if workers:
        rank.worker(0, "idle", age - 2)
        rank.worker(
            1, "fetch", age, sample_age=sample_age, sample_index=333, wchan="hrtimer_nanosleep", alive=alive
        )
    else:
        assert rank.span is not None
        sample = {"sample_index": 333, "sample_since_ns": rank.now_ns - int(sample_age * S)}
        rank.span = msgspec.structs.replace(rank.span, os_state="S", wchan="hrtimer_nanosleep", **sample)
    for second, look in zip(range(age), islice(cycle(looks), age), strict=True):
        read = {"read_chars": 9e9 - second * chars_per_s, "read_bytes": 9e9 - second * stored_per_s}
        rank.process(worker=worker, pid=pid, cpu=cpu, t_ns=rank.now_ns - second * S, **read, **LOOKS[look])
    rows = [{"network_rx_bytes_per_s": network_per_s}] * age
    return [
        finding
        for finding in detect(RunEvidence(run(rank, host_rows=rows), Limits()))
        if finding.code == "hung"
    ]


def hang(looks: Sequence[str], **how: Any) -> Finding:
    """The one that is found."""
    (found,) = hangs(looks, **how)
    return found


def test_one_that_computes_is_told_at_its_limit() -> None:
    found = hang("R")
    assert (found.severity, found.scenario, found.worker) == ("critical", "S22", 1)
    assert found.title == (
        "Training hangs: worker 1 (pid 201) of train_loader has been stuck for 31 s in dataset[333],"
        " computing without an end."
    )
    assert "typical of a retry loop whose attempts all fail" in found.cause
    assert "without a pause" in found.cause


def test_so_is_one_that_lacks_a_cpu() -> None:
    """Of a CPU that others want as well it gets a third, and runs whenever it is looked at."""
    assert hang("R", cpu=0.3).severity == "critical"


def test_one_that_sleeps_between_its_tries_is_told_at_its_limit() -> None:
    """A back-off that grows: hardly any CPU, and a short look at the file now and then."""
    found = hang(["timer"] * 9 + ["R"], cpu=0.02, chars_per_s=500.0)
    assert (found.severity, found.scenario) == ("critical", "S22")
    assert "repeating the same attempt endlessly" in found.title
    assert "sleeps in between" in found.cause
    assert "Limit every retry" in found.advice


def test_the_training_process_is_judged_alike() -> None:
    """``num_workers=0``."""
    found = hang("R", workers=0, chars_per_s=1e6)
    assert (found.severity, found.scenario, found.worker) == ("critical", "S22", None)
    assert "the training process (pid 100) has been stuck" in found.title
    assert "without a pause. This is typical of a retry loop" in found.cause
    slept = hang(["timer"], cpu=0.02, workers=0, chars_per_s=1e6)
    assert (slept.severity, slept.scenario) == ("critical", "S22")
    assert "repeating the same attempt endlessly" in slept.title


@pytest.mark.parametrize(
    "more",
    [
        {"stored_per_s": 12e6},  # it decompresses a large file
        {"network_per_s": 12e6},  # or what a connection brings
        {"sample_age": 10.0, "age": 60},  # and goes on to the next sample
    ],
)
def test_what_is_new_has_patience(more: dict[str, Any]) -> None:
    assert [finding.severity for finding in hangs("R", chars_per_s=12e6, **more)] in ([], ["info"])


def test_what_computes_and_reads_has_twice_the_limit_at_most() -> None:
    assert hang("R", chars_per_s=12e6, stored_per_s=12e6, age=59, sample_age=58.0).severity == "info"
    assert hang("R", chars_per_s=12e6, stored_per_s=12e6, age=62, sample_age=61.0).severity == "critical"


@pytest.mark.parametrize("looks", [["socket"], ["R", "socket"], ["timer", "socket"]])
def test_one_that_waits_for_what_it_reads_has_patience(looks: list[str]) -> None:
    """Slow storage, a slow connection: it is found waiting for them."""
    found = hang(looks, cpu=0.2)
    assert found.severity == "info"
    assert "may only be very slow" in found.cause


def test_little_from_elsewhere_on_the_network_does_not_hide_it() -> None:
    """Other processes of the host receive something all the time."""
    assert hang("R", chars_per_s=15_000.0, network_per_s=400_000.0).severity == "critical"


def test_where_nobody_says_what_came_from_storage() -> None:
    found = hang("R", stored_per_s=float("nan"))
    assert found.severity == "info"


def test_a_dead_worker_tries_nothing() -> None:
    """What was seen of it is from before."""
    assert hang("R", alive=False).scenario == "S37"
