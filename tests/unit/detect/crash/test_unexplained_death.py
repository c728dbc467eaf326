"""Which deaths of training processes people are told of, also where no detector knows why."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from loaderwatch.detect.crash.unexplained import crash_verdict, ending, unexplained_death
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.alerts.book import Alert
from loaderwatch.server.live.window_builder import WindowBuilder
from tests.fakes.runs import SECOND, T0, envelope, process, span


def _window(world: int = 1, pid: int = 1000, **facts: Any) -> RunWindow:
    builder = WindowBuilder("run-1")
    ended = msgspec.structs.replace(process(0, world, **({"state": "crashed"} | facts)), pid=pid)
    others = [process(rank, world) for rank in range(1, world)]
    builder.add(envelope(31, processes=[ended, *others], spans=[span(0, T0, step=118, alive=False)]))
    return builder.window()


def _alert(code: str, **more: Any) -> Alert:
    finding = Finding(
        **{
            "key": f"{code}:rank0", "code": code, "scenario": "S36", "severity": "critical", "confidence": 0.9,
            "began_ns": T0, "title": "It.", "cause": "", "advice": "", "pid": 1000, **more,
        }
    )  # fmt: skip
    return Alert(f"run-1.{code}", finding, "firing", T0, T0)


@pytest.mark.parametrize(
    "facts",
    [
        {"exit_code": -9},
        {"exit_code": -11},
        {"exit": "uncaught ValueError: x"},
        {"exit": "uncaught ValueError: x", "exit_code": 1},
        {},  # it vanished, and the kernel does not tell
    ],
)
def test_told(facts: dict[str, Any]) -> None:
    window = _window(**facts)
    found = unexplained_death(window, [], [])
    assert found is not None
    verdict = crash_verdict(window, [])
    assert (found.code, found.severity, found.pid) == ("crashed", "critical", 1000)
    assert (found.title, found.advice) == (verdict.title, verdict.advice)


@pytest.mark.parametrize(
    "facts",
    [
        {"exit_code": -15},
        {"exit_code": -2},
        {"exit_code": -1},
        {"exit_code": 3},  # os._exit(3)
        {"exit": "exit code 143", "exit_code": 143},
        {"exit": "uncaught KeyboardInterrupt", "exit_code": -2},
        {"state": "live"},
        {"state": "finished", "exit_code": 0},
    ],
)
def test_who_stops_a_job_is_not_told(facts: dict[str, Any]) -> None:
    assert unexplained_death(_window(**facts), [], []) is None


def test_who_knows_is_not_told_again() -> None:
    window = _window(exit_code=-9)
    mine = unexplained_death(window, [], [])
    assert mine is not None
    assert unexplained_death(window, [_alert("crashed", scenario="S39").finding], []) is None
    assert unexplained_death(window, [], [_alert("crashed", scenario="S39", key="crashed:rank1")]) is None
    assert unexplained_death(window, [], [_alert("hung", key="hung:0")]) is None  # killed because it hung
    overcome = _alert("hung", key="hung:0")
    overcome.closed_ns = T0 - 60 * SECOND
    assert unexplained_death(window, [], [overcome]) is not None


def test_its_own_alert_goes_on_and_a_second_death_of_the_run_is_no_second_message() -> None:
    window = _window(exit_code=-9)
    mine = unexplained_death(window, [], [])
    assert mine is not None
    told = Alert("run-1.x", mine, "firing", T0, T0)
    assert unexplained_death(window, [], [told]) == mine
    assert unexplained_death(_window(pid=1001, exit_code=-9), [], [told]) is None


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"exit_code": -9}, "SIGKILL"),
        ({"exit_code": -61}, "signal 61"),
        ({"exit_code": 3}, "exit code 3"),
        ({"exit": "uncaught ValueError: x", "exit_code": 1}, "uncaught ValueError: x"),
        ({}, None),
        ({"state": "live"}, None),
        ({"state": "finished", "exit_code": 0}, None),
    ],
)
def test_how_it_ended_stands_with_the_rank(facts: dict[str, Any], said: str | None) -> None:
    assert ending(process(0, 1, **({"state": "crashed"} | facts))) == said
