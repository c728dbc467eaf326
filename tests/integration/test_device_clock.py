"""A wait costs what the GPU lacked: real trainings on a virtual GPU, which knows how long it was idle."""

from __future__ import annotations

import itertools
import re
import shutil
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final

import pytest

from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.texts.formats import rate
from tests.fakes.serving import ServeProcess
from tests.fakes.streaming import end_processes
from tests.gpu.matrix import STEP_MS, Ran, Run, Stage

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc"),
]

RUNS: Final = {
    run.name: run
    for run in (
        # the GPU never starves, the loop waits while it fills the launch queue
        Run("fast", ("--load-ms", "60"), seconds=15, nvml=False),
        Run("even", ("--load-ms", "95"), seconds=15, nvml=False),
        Run("slow", ("--load-ms", "200"), seconds=15, nvml=False),
        Run("fast-item", ("--load-ms", "60", "--item-every", "1"), seconds=15, nvml=False),
        Run("slow-item", ("--load-ms", "200", "--item-every", "1"), seconds=15, nvml=False),
    )
}
LOGGING: Final = Run(
    "logging", ("--load-ms", "20", "--item-every", "1", "--own-ms", "800"), "own", seconds=30, step_ms=800
)
"""In half of each step the loop does other work, after it has waited for the GPU. No batch is missing."""
OTHER_STREAM: Final = Run("other-stream", ("--load-ms", "95", "--stream"), seconds=30)
"""Its events lie on a stream that is idle: by them the GPU starves for nearly all of the time."""
CLOSE: Final = 0.06
"""On a quiet machine they differ by 0.015 at most. If a loop gets no CPU between a batch and its kernels, the
GPU is idle as well, which is no lack of data."""
AT_ONCE: Final = 3
LIMITS: Final = Limits()


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    folder = tmp_path_factory.mktemp("device")
    data_dir = folder / "loaderwatch"
    runs = [*RUNS.values(), *([LOGGING, OTHER_STREAM] if shutil.which("cc") else [])]
    ended: dict[str, Ran] = {}
    with ExitStack() as stack:
        stack.callback(end_processes, data_dir)
        server = stack.enter_context(ServeProcess(data_dir, "--port", "0"))
        stage = Stage(folder, server.start(), data_dir)
        for some in (runs[at : at + AT_ONCE] for at in range(0, len(runs), AT_ONCE)):
            ranks = [stage.start(run) for run in some]
            try:
                ended |= {run.name: stage.finish(run, these) for run, these in zip(some, ranks, strict=True)}
            finally:
                for process in itertools.chain(*ranks):
                    process.kill()
    return ended


def sawtooth(of: Ran) -> list[dict[str, Any]]:
    return [finding for finding in of.findings if finding["code"] == "gpu-sawtooth"]


@pytest.mark.parametrize("name", RUNS)
def test_the_data_wait_is_the_idle_time_of_the_gpu(ran: dict[str, Ran], name: str) -> None:
    one = ran[name]
    idle, later = one.truth["idle_ratio"], one.truth["later_idle_ratio"]
    assert one.summary["clock"] == "device"
    assert one.summary["data_wait_ratio"] == pytest.approx(idle, abs=CLOSE)
    assert one.summary["ranks"][0]["data_wait_ratio"] == one.summary["data_wait_ratio"]
    assert one.summary["gpu_starved_ratio"] == pytest.approx(one.summary["data_wait_ratio"], abs=CLOSE)
    waited = one.series["data_wait_ratio"][1:-1]
    assert sum(waited) / len(waited) == pytest.approx(later, abs=2 * CLOSE)
    starting_s = 2.0  # the worker's, which is time lost as well
    assert one.summary["lost_s"] - (idle - CLOSE) * one.truth["elapsed_s"] > 0
    assert one.summary["lost_s"] < (idle + CLOSE) * one.truth["elapsed_s"] + starting_s


@pytest.mark.parametrize("name", RUNS)
def test_phases_are_as_long_as_the_device_takes_for_them(ran: dict[str, Ran], name: str) -> None:
    """Forward launches a third of the kernels, backward two; by the loop's clock each takes a millisecond."""
    series = ran[name].series
    for phase, part in (("forward", 1 / 3), ("backward", 2 / 3)):
        values = series[f"gpu_{phase}_s"]
        assert 0.99 < min(values) / (part * STEP_MS / 1e3) < 1.3, phase
    assert min(series["gpu_optimizer_s"]) < 0.01


def test_slack_is_how_far_the_loop_runs_ahead(ran: dict[str, Ran]) -> None:
    """Of a bucket in the middle: after a batch that came late the loop may be two ahead for a moment."""
    assert max(ran["fast"].series["slack_s"]) > 0.5  # a third of each step, until the launch queue is full
    assert median(ran["slow"].series["slack_s"]) < STEP_MS / 1e3
    assert median(ran["fast-item"].series["slack_s"]) < 0.01


@pytest.mark.parametrize("name", RUNS)
def test_who_is_told_goes_by_the_truth(ran: dict[str, Ran], name: str) -> None:
    """Between the two limits of a severity the clock of a busy machine decides: there nothing is asserted."""
    one = ran[name]
    idle = one.truth["later_idle_ratio"]  # first batches are no stall
    if idle < LIMITS.input_warning_ratio - CLOSE:
        assert one.told == []
    if idle > LIMITS.input_critical_ratio + CLOSE:
        (finding,) = one.told
        assert (finding["code"], finding["scenario"], finding["severity"]) == (
            "input-bound",
            "S02",
            "critical",
        )
        assert finding["gain_ceiling_ratio"] == pytest.approx(idle, abs=CLOSE)
        evidence = {item["label"]: item["value"] for item in finding["evidence"]}
        assert 0.95 < evidence["step without the wait"] / (STEP_MS / 1e3) < 1.3
        assert f"could take {rate(1 / evidence['step without the wait'])}." in finding["title"]


def test_the_device_is_never_synchronized_by_us(ran: dict[str, Ran]) -> None:
    assert [one.truth["synchronized_by_us"] for one in ran.values()] == [0] * len(ran)


def test_the_loops_own_wait_is_evidence(ran: dict[str, Ran]) -> None:
    (finding,) = ran["slow"].told
    evidence = {item["label"]: item["value"] for item in finding["evidence"]}
    assert evidence["wait per batch"] < 0.15
    assert (
        "wait of the loop, mostly hidden by the GPU's work" not in evidence
    )  # here the GPU starves for most of it


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler for the stand-in of NVML")
def test_a_gpu_that_swings_while_data_is_there_is_told_as_that(ran: dict[str, Ran]) -> None:
    one = ran["logging"]
    idle = one.truth["later_idle_ratio"]
    assert idle > 0.4
    assert one.summary["data_wait_ratio"] < 0.1
    (finding,) = sawtooth(one)
    assert finding["severity"] == "critical"
    assert finding["gain_ceiling_ratio"] == pytest.approx(idle, abs=2 * CLOSE)
    evidence = {item["label"]: item["value"] for item in finding["evidence"]}
    assert evidence["period"] == pytest.approx(1.6, abs=0.3)
    assert "other work of the training loop" in finding["cause"]
    assert re.search(
        r"iteration \(\w+\.py:\d+ in \w+\)", finding["cause"]
    )  # of a stack that was taken for it
    assert [each["code"] for each in one.told] == ["gpu-sawtooth"]
    assert not any(sawtooth(other) for name, other in ran.items() if name != "logging")


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler for the stand-in of NVML")
def test_a_gpu_that_works_on_another_stream_does_not_starve(ran: dict[str, Ran]) -> None:
    one = ran["other-stream"]
    assert one.starved < LIMITS.input_warning_ratio
    # By its events it starves nearly all the time. A busy machine's delay of half a minute may be reported.
    assert all(finding["gain_ceiling_ratio"] < one.starved + 2 * CLOSE for finding in one.told), one.told
    assert one.summary["clock"] == one.summary["ranks"][0]["clock"] == "nvml"
    assert one.summary["data_wait_ratio"] == pytest.approx(one.starved, abs=CLOSE)
    assert one.summary["known_ratio"] == 0.0
    # A loop that runs far ahead of its GPU ("fast") has events that are still to come.
    known = {name: ran[name].summary["known_ratio"] for name in ("even", "slow", "slow-item")}
    assert min(known.values()) > 0.9, known
