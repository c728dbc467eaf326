"""A loop that waits for another process or machine in each step."""

from __future__ import annotations

import pytest

from loaderwatch.core.facts import ANSWER_WAIT
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.slow_step.waiting_loops import FEW_WAITING_STEPS
from tests.unit.detect import stacks
from tests.unit.detect.build import RankBuilder, S, loader, run


def looked(
    waiting: float, *, wait_s: float = 0.002, step_s: float = 0.163, seconds: int = 60, **fields: object
) -> RankBuilder:
    """A minute of equal steps. Each second a sample finds the process in its wait or elsewhere in a step."""
    builder = RankBuilder(loaders=[loader(num_workers=2, **fields)])
    builder.add("epoch_begins", loader=0, epoch=0, iter_ns=S // 50, first_wait_ns=S // 50)
    begun, number = builder.now_ns, 0
    while builder.now_ns - begun < seconds * S:
        builder.step(wait_s, step_s)
        if builder.now_ns - begun > number * S:
            number += 1
            waits = (number * waiting) % 1 >= 1 - waiting - 1e-9
            look(builder, waits=waits, ago_s=step_s / 2)
    return builder


def look(builder: RankBuilder, *, waits: bool, ago_s: float) -> None:
    at = builder.now_ns - int(ago_s * S)
    builder.process(worker=-1, pid=100, cpu=0.3, t_ns=at, answer_wait=float(waits), timer_wait=0.0)


def told(builder: RankBuilder) -> list[tuple[str, str]]:
    return [(finding.scenario, finding.severity) for finding in detect(RunEvidence(run(builder)))]


@pytest.mark.parametrize(
    ("wchan", "what"),
    [
        ("wait_woken", "the network"),
        ("anon_pipe_write", "a pipe"),
        ("do_wait", "a child process"),
        ("poll_schedule_timeout", "an answer"),
    ],
)
def test_what_it_waits_for_and_where(wchan: str, what: str) -> None:
    builder = looked(0.6).stack(-1, 100, stacks.main_in(user="post"), why=ANSWER_WAIT, wchan=wchan)
    (finding,) = detect(RunEvidence(run(builder)))
    assert (finding.scenario, finding.severity, finding.rank) == ("S26", "warning", 0)
    assert f"Training waits for {what} 61 % of the time" in finding.title
    assert ", at train.py:61 in post: " in finding.title
    assert finding.title.endswith("; not the data loader.")
    assert finding.gain_ceiling_ratio == pytest.approx(0.6, abs=0.06)
    assert finding.lost_s == pytest.approx(36, abs=5)
    assert len(finding.stacks) == 1


def test_a_socket_with_a_timeout_polls() -> None:
    post = (
        "Current thread 0x00007f2b28a4b740 (most recent call first):\n"
        '  File "/usr/lib/python3.11/socket.py", line 706 in readinto\n'
        '  File "/usr/lib/python3.11/http/client.py", line 286 in _read_status\n'
        '  File "/home/me/project/train.py", line 61 in post\n'
    )
    builder = looked(0.6).stack(-1, 100, post, why=ANSWER_WAIT, wchan="poll_schedule_timeout")
    (finding,) = detect(RunEvidence(run(builder)))
    assert "waits for the network " in finding.title
    assert ", at train.py:61 in post: " in finding.title


def test_a_stack_of_another_moment_names_no_line() -> None:
    builder = looked(0.6).stack(-1, 100, stacks.main_in(user="log"), why=ANSWER_WAIT, wchan="0")
    (finding,) = detect(RunEvidence(run(builder)))
    assert "waits for an answer " in finding.title
    assert ", in its own code: " in finding.title


@pytest.mark.parametrize(("waiting", "expected"), [(0.0, []), (0.05, []), (0.2, [("S26", "info")])])
def test_what_costs_little_wakes_nobody(waiting: float, expected: list[tuple[str, str]]) -> None:
    assert told(looked(waiting)) == expected


def test_waits_for_data_are_not_the_loops() -> None:
    """A reader of a pipe in next() waits for an answer, too."""
    builder = looked(0.0, wait_s=0.1, step_s=0.06, seconds=30)
    for second in range(30):
        # in the wait of the last step but so many
        ago_s = 0.16 * (6 * second + 1) - 0.05
        look(builder, waits=True, ago_s=ago_s)
    assert "S26" not in dict(told(builder))


def test_one_long_wait_is_no_habit() -> None:
    builder = looked(0.0, seconds=30)
    builder.step(0.002, 20.0)
    for second in range(FEW_WAITING_STEPS + 10):
        look(builder, waits=True, ago_s=1.0 + second)
    assert all("stack checks" not in finding.cause for finding in detect(RunEvidence(run(builder))))


def test_evaluation_between_steps_is_not_training() -> None:
    builder = looked(0.0, seconds=40)
    for _ in range(20):
        builder.now_ns += S
        look(builder, waits=True, ago_s=0.1)
    assert told(builder) == []


@pytest.mark.parametrize("clock", ["cuda", "events of another device"])
def test_on_a_device_queued_work_may_hide_it(clock: str) -> None:
    builder = looked(0.6)
    if clock == "cuda":
        builder.cuda = True
    else:
        builder.rows["gpu_waits"] = [
            {**row, "starved_ns": 0, "gpu_step_ns": 3 * S // 20, "slack_ns": S // 10}
            for row in builder.rows["steps"]
        ]
    assert "S26" not in dict(told(builder))
