"""S49: workers that take turns because of a lock, in the kernel or by trying again and again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import pytest

from loaderwatch.core.facts import LOCK_WAIT, StackDump
from loaderwatch.detect.finding import Finding
from tests.unit.detect.build import RankBuilder, S, loader, run
from tests.unit.detect.polled_lock import polled
from tests.unit.detect.workers import only, starve, watch

READING: Final = """  File "/home/me/project/index.py", line 31 in lookup
  File "/home/me/project/data.py", line 12 in __getitem__
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py", line 54 in fetch
"""
THREAD: Final = "Current thread 0x00007f2b28a4b740 (most recent call first):\n"
LIBRARY: Final = '  File "/opt/venv/lib/python3.11/site-packages/filelock/_api.py", line 344 in acquire\n'


def short_of_workers(workers: int) -> RankBuilder:
    """Workers that hardly compute and cannot keep up."""
    builder = RankBuilder(loaders=[loader(num_workers=workers)])
    return starve(builder, fetch=0.8, step=0.02, workers=workers, cpu=0.05)


def found(builder: RankBuilder) -> Finding:
    return only(run(builder, cpus=4, busy=0.1))


def stack(builder: RankBuilder, worker: int, wchan: str, inner: str = "") -> None:
    """A stack that was taken of a worker while the loop waited."""
    text = THREAD + inner + READING
    builder.stacks.append(
        StackDump(
            rank=0,
            worker=worker,
            pid=200 + worker,
            taken_ns=builder.now_ns - S,
            text=text,
            why=LOCK_WAIT,
            wchan=wchan,
        )
    )


def seen(
    builder: RankBuilder,
    workers: int,
    sleeps: Callable[[int, int], float],
    holds: Callable[[int, int], bool],
    looks: int = 12,
) -> RankBuilder:
    """Sample each worker once a second up to now. Callables receive the number of the look and the worker."""
    for look in range(looks):
        at_ns = builder.now_ns - (looks - 1 - look) * S
        for worker in range(workers):
            builder.process(
                worker=worker,
                pid=200 + worker,
                cpu=0.05,
                t_ns=at_ns,
                lock_wait=0.0,
                timer_wait=sleeps(look, worker),
                holds_file_lock=float(holds(look, worker)),
            )
    return builder


def asleep(builder: RankBuilder, workers: int, holder: dict[int, int], looks: int = 12) -> RankBuilder:
    """Workers that sleep three quarters of the time; ``holder``: who holds a file lock, by look."""
    return seen(
        builder,
        workers,
        lambda look, worker: float(worker != look % workers),
        lambda look, worker: holder.get(look) in (worker, -1),
        looks,
    )


@pytest.mark.parametrize(
    ("workers", "lock", "scenario"),
    [
        (4, 0.75, "S49"),
        (2, 0.5, "S49"),
        (4, 0.97, "S08"),  # each waits for threads of its own
        (4, 0.1, "S08"),
        (4, math.nan, "S08"),  # nobody may look
    ],
)
def test_workers_that_share_a_lock(workers: int, lock: float, scenario: str) -> None:
    """One works at a time, and more of them do not help."""
    finding = found(watch(short_of_workers(workers), workers, cpu=0.05, threads=2, lock_wait=lock))
    assert finding.scenario == scenario
    if scenario == "S49":
        assert f"its {workers} workers take turns on a shared lock" in finding.title
        assert "More workers only wait" in finding.advice
        assert "num_workers" not in finding.advice


def test_the_line_is_of_a_worker_that_waited() -> None:
    builder = watch(short_of_workers(4), 4, cpu=0.05, lock_wait=0.75)
    stack(builder, 2, "futex_wait_queue")
    stack(builder, 3, "folio_wait_bit_common")  # that one had the lock when it was asked
    finding = found(builder)
    assert "workers take turns on a shared lock at index.py:31 in lookup" in finding.title
    assert "Worker 2 was waiting at index.py:31 in lookup (see its stack)" in finding.advice
    assert [dump.worker for dump in finding.stacks] == [2]


def test_a_file_lock_that_goes_around_while_the_others_sleep() -> None:
    """SQLite's busy handler sleeps, and who has the lock is known."""
    builder = asleep(short_of_workers(4), 4, {1: 0, 4: 2, 7: 3})
    stack(builder, 1, "hrtimer_nanosleep")
    finding = found(builder)
    assert finding.scenario == "S49"
    assert "of the time between two attempts to get a lock" in finding.cause
    assert "3 workers were seen to hold it in turn" in finding.cause
    assert "index.py:31" in finding.title


def test_a_library_of_locks_tells_itself() -> None:
    """A lock that is a file which exists or not is held by nobody, as the kernel sees it."""
    builder = asleep(short_of_workers(4), 4, {})
    stack(builder, 1, "hrtimer_nanosleep", LIBRARY)
    finding = found(builder)
    assert finding.scenario == "S49"
    assert "index.py:31 in lookup" in finding.title  # the user's own line, not the library's


@pytest.mark.parametrize(
    "holder",
    [
        {},  # nobody: retries, a limit of requests
        {1: 2, 4: 2, 7: 2},  # always the same: a file of its own
        dict.fromkeys(range(12), -1),  # each has one: a database for each worker
    ],
)
def test_who_sleeps_does_not_wait_for_a_lock_by_that_alone(holder: dict[int, int]) -> None:
    builder = asleep(short_of_workers(4), 4, holder)
    stack(builder, 1, "hrtimer_nanosleep")
    assert found(builder).scenario == "S08"


@pytest.mark.parametrize(
    ("holder_sleeps", "others_sleep", "scenario"), [(0.0, 1.0, "S49"), (1.0, 1.0, "S08"), (0.0, 0.0, "S08")]
)
def test_a_lock_that_one_keeps_for_many_samples(
    holder_sleeps: float, others_sleep: float, scenario: str
) -> None:
    builder = seen(
        short_of_workers(4),
        4,
        lambda look, worker: holder_sleeps if worker == 2 else others_sleep,
        lambda look, worker: worker == 2,
    )
    finding = found(builder)
    assert finding.scenario == scenario
    assert ("Release the lock sooner" in finding.advice) == (scenario == "S49")


def test_who_waits_for_a_network_does_not_wait_for_a_lock_that_is_held_now_and_then() -> None:
    builder = seen(short_of_workers(4), 4, lambda look, worker: 0.0, lambda look, worker: look % 4 == worker)
    assert found(builder).scenario == "S08"


def test_a_lock_that_nobody_knows_of() -> None:
    """A key in Redis, a file that exists or not: what one worker gets done the others lack."""
    builder = asleep(polled(), 4, {})
    stack(builder, 0, "hrtimer_nanosleep")
    stack(builder, 1, "hrtimer_nanosleep")
    stack(
        builder, 2, "hrtimer_nanosleep", '  File "/home/me/project/index.py", line 40 in read\n'
    )  # it has it
    finding = found(builder)
    assert finding.scenario == "S49"
    assert "at index.py:31 in lookup" in finding.title  # where most of them were found
    assert "So all workers share one lock or one limit" in finding.cause
    assert "what all workers get done varies by" in {item.label for item in finding.evidence}


@pytest.mark.parametrize(("step", "pause"), [(0.01, 0.05), (0.032, 0.05), (0.032, 0.005), (0.056, 0.005)])
def test_who_is_unlucky_with_a_lock_has_no_slow_sample(step: float, pause: float) -> None:
    """Most workers get the lock at once, some try for long: the usual batch is quick, a few are late."""
    finding = found(asleep(polled(step_s=step, pause_s=pause), 4, {}))
    assert finding.scenario == "S49"
    assert not finding.sample_indices
    assert (
        finding.key == "input-bound:0:steady"
    )  # one alert with the waits for every batch that the lock makes as well


def test_who_gets_on_alike_without_sleeping_has_no_lock() -> None:
    """As those do that share what a disk or a network brings."""
    builder = watch(polled(), 4, cpu=0.05, lock_wait=0.0, timer_wait=0.0)
    assert found(builder).scenario in ("S02", "S08")


def test_who_sleeps_for_who_knows_what_is_told_so() -> None:
    """Nothing shows a lock, and nothing rules one out."""
    finding = found(asleep(short_of_workers(4), 4, {}))
    assert finding.scenario == "S08"
    assert "each worker spends 75 % of its time in sleeps of a set length" in finding.advice
    assert "`loaderwatch tune`" in finding.advice
    fewer = found(asleep(short_of_workers(2), 2, {}))
    assert "sleeps of a set length" in fewer.advice
    assert "sleeps" not in found(watch(short_of_workers(4), 4, cpu=0.05, timer_wait=0.0)).advice


def standing_still(*, together: bool = True, cpu: float = 0.01, workers: int = 3) -> RankBuilder:
    """Workers keep up except for 2 s in every 7, when all stand still, together or one after the other."""
    builder = RankBuilder(loaders=[loader(num_workers=workers)])
    for turn in range(9):
        for number in range(100):
            builder.fetch(number % workers, 0.01, cpu=0.5).step(0.0005, 0.05, ready=2)
        if turn == 8:
            break  # it goes on for a while
        index = 1000 * turn + 37 * turn * turn
        if together:
            builder.now_ns += 2 * S
            for worker in range(workers):
                builder.now_ns += S // 1000
                builder.fetch(worker, 2.0, cpu=cpu)
                # each of them has another sample in hand
                builder.rows["fetches"][-1] |= {
                    "slow_index": index + worker,
                    "slow_ns": 2 * S - S // 100,
                }
            builder.now_ns -= 2 * S + workers * S // 1000
            builder.step(2.0, 0.05, awaited_worker=0)
        else:
            builder.now_ns += 2 * S
            builder.fetch(turn % workers, 2.0, cpu=cpu, slow_index=index, slow_ns=2 * S - S // 100)
            builder.now_ns -= 2 * S
            builder.step(2.0, 0.05, awaited_worker=turn % workers)
    return builder


@pytest.mark.parametrize(
    ("timer_wait", "scenario", "told"),
    [
        (0.6, "S49", "Another process holds a lock that all workers need"),
        (0.0, "S10", "stops from time to time"),
    ],
    ids=["asleep between attempts", "reads that are not answered"],
)
def test_workers_that_stand_still_together_have_no_slow_sample(
    timer_wait: float, scenario: str, told: str
) -> None:
    builder = watch(standing_still(), 3, cpu=0.1, looks=60, timer_wait=timer_wait, lock_wait=0.0)
    finding = only(run(builder, cpus=4, busy=0.1))
    assert (finding.scenario, finding.sample_indices) == (scenario, [])
    assert "all 3 workers stop together, 8 times so far, for up to 2.0 s" in finding.title
    assert told in finding.cause


@pytest.mark.parametrize("fields", [{"together": False}, {"cpu": 0.9}], ids=["one at a time", "they compute"])
def test_others_have_slow_samples(fields: dict[str, float]) -> None:
    builder = watch(
        standing_still(**fields),  # type: ignore[arg-type]
        3, cpu=0.1, looks=60, timer_wait=0.6, lock_wait=0.0,
    )  # fmt: skip
    assert only(run(builder, cpus=4, busy=0.1)).scenario in ("S20", "S21")


def test_the_line_at_which_they_stand() -> None:
    builder = watch(standing_still(), 3, cpu=0.1, looks=60, timer_wait=0.6, lock_wait=0.0)
    stack(builder, 1, "hrtimer_nanosleep")
    finding = only(run(builder, cpus=4, busy=0.1))
    assert "stop together, 8 times so far, for up to 2.0 s, at index.py:31 in lookup" in finding.title
    assert len(finding.stacks) == 1


MANAGER: Final = """  File "/usr/lib/python3.11/multiprocessing/connection.py", line 395 in _recv
  File "/usr/lib/python3.11/multiprocessing/managers.py", line 822 in _callmethod
  File "/usr/lib/python3.11/multiprocessing/managers.py", line 1063 in __enter__
"""


@pytest.mark.parametrize(
    ("inner", "waits", "scenario"),
    [
        (MANAGER, 0.75, "S49"),
        (MANAGER, 0.2, "S08"),
        (MANAGER.replace("__enter__", "__getitem__"), 0.75, "S08"),  # a dictionary of the manager's
        ("", 0.75, "S08"),
    ],
)
def test_a_lock_that_a_manager_hands_out(inner: str, waits: float, scenario: str) -> None:
    builder = watch(short_of_workers(4), 4, cpu=0.05, lock_wait=0.0, timer_wait=0.2, answer_wait=waits)
    for worker in (1, 3):
        stack(builder, worker, "unix_stream_read_generic", inner)
    finding = found(builder)
    assert finding.scenario == scenario
    if scenario == "S49":
        assert "index.py:31 in lookup" in finding.title
        assert "multiprocessing.Manager" in finding.cause
