"""Hung: the four facts, by state of the worker; and everything that is only slow, or nobody's fault."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loaderwatch.core.facts import Call, PhaseName
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.window import RunWindow
from tests.unit.detect import stacks
from tests.unit.detect.build import RankBuilder, S, loader, run


def trained(rank: int = 0, world_size: int = 1, *, batches: int = 100, **options: Any) -> RankBuilder:
    """A rank with a healthy past."""
    builder = RankBuilder(rank, world_size, loaders=[loader(**options)])
    for number in range(batches):
        builder.fetch(number % 2, 0.03, cpu=0.5).step(0.001, 0.05, ready=4)
    return builder


def hangs(window: RunWindow, **limits: float) -> list[Finding]:
    return [
        f for f in detect(RunEvidence(window, Limits(**limits))) if f.code == "hung" and f.severity != "info"
    ]


def only(window: RunWindow, **limits: float) -> Finding:
    (finding,) = hangs(window, **limits)
    return finding


def blocked(age: float = 47.0, **worker: Any) -> RankBuilder:
    """Worker 1 sits in sample 18432, worker 0 is idle, the loop waits for worker 1."""
    builder = trained().open("wait", age, awaited_worker=1)
    builder.worker(0, "idle", age - 2)
    facts: dict[str, Any] = {"os_state": "S", "wchan": "anon_pipe_read", "sample_index": 18_432} | worker
    return builder.worker(1, "fetch", age, sample_age=age - 1, **facts)


@pytest.mark.parametrize(
    ("state", "wchan", "scenario", "words"),
    [
        ("R", "0", "S22", "computing without an end"),
        ("S", "futex_wait_queue", "S35", "lock"),
        ("D", "rpc_wait_bit_killable", "S36", "storage"),
        ("S", "sk_wait_data", "S36", "network"),
        ("S", "anon_pipe_read", "S36", "pipe"),
        ("S", "wait_for_partner", "S36", "named pipe"),
        ("S", "locks_lock_inode_wait", "S36", "a file lock that another process holds"),
        ("S", "do_wait", "S36", "a child process that does not end"),
        ("S", "hrtimer_nanosleep", "S36", "asleep in its own code"),
        ("S", None, "S36", "an answer that never comes"),
        ("T", "do_signal_stop", "S36", "stopped by a signal"),
    ],
)
def test_the_state_of_the_awaited_worker_names_the_cause(
    state: str, wchan: str | None, scenario: str, words: str
) -> None:
    builder = blocked(os_state=state, wchan=wchan)
    finding = only(run(builder))
    assert finding.scenario == scenario
    assert (finding.rank, finding.worker, finding.pid, finding.sample_indices) == (0, 1, 201, [18_432])
    assert words in finding.title
    assert "dataset[18432]" in finding.title
    assert finding.severity == "critical"
    assert finding.lost_s == 47.0


def test_a_worker_that_waits_on_a_queue_waits_for_no_lock() -> None:
    pool = (
        "Current thread 0x00007f2b28a4b740 (most recent call first):\n"
        '  File "/usr/lib/python3.11/threading.py", line 320 in wait\n'
        '  File "/usr/lib/python3.11/queue.py", line 171 in get\n'
        '  File "/home/me/project/data.py", line 67 in fetch\n'
        '  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py",'
        " line 349 in _worker_loop\n"
    )
    finding = only(run(blocked(os_state="S", wchan="futex_do_wait").stack(1, 201, pool)))
    assert finding.scenario == "S35"
    assert "waiting for a queue that stays empty" in finding.title
    assert "finally" in finding.advice


def test_the_stack_comes_with_it_and_the_users_line_is_named() -> None:
    builder = blocked().stack(1, 201, stacks.WORKER).stack(-1, 100, stacks.MAIN_WAITS).stack(0, 200, "")
    finding = only(run(builder))
    assert [stack.worker for stack in finding.stacks] == [1, -1]
    assert "data.py:42 in load_image" in finding.cause
    assert {item.label: item.value for item in finding.evidence}["blocked at"] == "data.py:42 in load_image"


@settings(max_examples=40, deadline=None)
@given(floor=st.floats(1.0, 60.0), share=st.floats(0.05, 3.0))
def test_the_floor_decides_when_history_is_short_waits(floor: float, share: float) -> None:
    age = floor * share
    # A window counts whole nanoseconds: on the very limit, a rounding decides.
    assume(min(abs(age - floor), abs(age - 0.9 * floor), abs(age + 1.0 - floor)) > 1e-6)
    finding = hangs(run(blocked(age + 1.0)), hang_floor_s=floor)
    assert bool(finding) == (age >= floor or (age + 1.0 - 1.0 >= 0.9 * floor and age + 1.0 >= floor))


def test_long_waits_in_the_past_raise_the_limit() -> None:
    """N18: large but legitimate batches."""
    builder = RankBuilder()
    for _ in range(30):
        builder.step(8.0, 1.0)
    builder.open("wait", 60.0, awaited_worker=1).worker(1, "fetch", 60.0, sample_age=60.0, sample_index=5)
    assert not hangs(run(builder))
    builder.span = None
    builder.workers.clear()
    builder.open("wait", 90.0, awaited_worker=1).worker(1, "fetch", 90.0, sample_age=90.0, sample_index=5)
    assert hangs(run(builder))


def test_a_dead_worker() -> None:
    builder = trained().open("wait", 40.0, awaited_worker=1).worker(0, "idle", 39.0)
    builder.worker(1, "fetch", 41.0, alive=False, os_state=None)
    finding = only(run(builder))
    assert (finding.scenario, finding.worker) == ("S37", 1)


def test_a_worker_that_nobody_hears_of_any_more_is_dead() -> None:
    builder = trained()
    builder.process(worker=0, pid=200, cpu=0.0).process(worker=1, pid=201, cpu=0.0)
    builder.open("wait", 40.0, awaited_worker=1).worker(0, "idle", 39.0)
    finding = only(run(builder))
    assert (finding.scenario, finding.worker, finding.pid) == ("S37", 1, 201)


def test_a_worker_that_died_in_the_middle_of_a_message_blocks_the_others() -> None:
    builder = trained()
    builder.process(worker=0, pid=200, cpu=0.0).process(worker=1, pid=201, cpu=0.0)
    builder.open("wait", 40.0, awaited_worker=0).worker(0, "idle", 39.0)
    finding = only(run(builder))
    assert (finding.scenario, finding.worker, finding.pid) == ("S37", 1, 201)


def test_a_worker_that_went_away_long_before_is_not_to_blame() -> None:
    builder = trained().process(worker=1, pid=201, cpu=0.0)
    for _ in range(200):
        builder.fetch(0, 0.03, cpu=0.5).step(0.001, 0.05, ready=4)
    builder.process(worker=0, pid=200, cpu=0.0).open("wait", 40.0, awaited_worker=0).worker(0, "idle", 39.0)
    assert only(run(builder)).scenario == "S41"


def test_idle_workers_and_no_batch() -> None:
    builder = trained().open("wait", 40.0, awaited_worker=1).worker(0, "idle", 39.0).worker(1, "idle", 39.5)
    finding = only(run(builder))
    assert (finding.scenario, finding.worker) == ("S41", None)


def test_a_queue_that_nobody_fills() -> None:
    builder = trained(num_workers=None).open("wait", 40.0, wchan="futex_wait_queue", os_state="S")
    builder.stack(-1, 100, stacks.QUEUE)
    assert only(run(builder)).scenario == "S41"


def test_the_first_batch_has_more_time_but_not_for_ever() -> None:
    def first(age: float) -> RunWindow:
        builder = RankBuilder().open("wait", age, awaited_worker=0)
        return run(builder.worker(0, "fetch", age, sample_age=age - 1, sample_index=3, wchan="sk_wait_data"))

    assert not hangs(first(60.0))
    assert only(first(95.0)).sample_indices == [3]


def test_how_long_workers_take_to_start_says_nothing_of_later_waits() -> None:
    builder = RankBuilder()
    builder.add("epoch_begins", loader=0, epoch=0, iter_ns=S // 50, first_wait_ns=12 * S)
    builder.step(12.0, 0.05)
    for number in range(20):
        builder.fetch(number % 2, 0.04, cpu=0.5).step(0.001, 0.05)
    builder.open("wait", 40.0, batch=21, awaited_worker=0)
    builder.worker(0, "fetch", 40.0, sample_age=39.0, sample_index=3, wchan="sk_wait_data")
    assert only(run(builder)).sample_indices == [3]


def test_a_stream_has_no_index_to_name() -> None:
    builder = trained(iterable_dataset=True).open("wait", 40.0, awaited_worker=0)
    builder.worker(0, "fetch", 40.0, sample_age=39.0, sample_index=412, wchan="sk_wait_data")
    finding = only(run(builder))
    assert "dataset[" not in finding.title
    assert "stream sample 412" in finding.title


def test_the_other_ranks_that_wait_are_part_of_it() -> None:
    culprit = blocked()
    culprit.rank, culprit.world_size = 1, 2
    victim = (
        trained(0, 2).open("step", 46.0).stack(-1, 100, stacks.main_in("_engine_run_backward", "backward"))
    )
    for row in [row for rows in culprit.rows.values() for row in rows]:
        row["rank"] = 1
    finding = only(run(victim, culprit))
    assert (finding.scenario, finding.rank, finding.worker) == ("S36", 1, 1)
    assert "Rank 0 waits for this rank" in finding.cause


def test_a_hang_hides_the_slow_loader_that_it_looks_like() -> None:
    findings = detect(RunEvidence(run(blocked(20.0)), Limits(hang_floor_s=10.0)))
    assert [finding.code for finding in findings] == ["hung"]


def between_passes(age: float, text: str = stacks.main_in(user="main"), *, gaps: int = 2) -> RankBuilder:
    """A rank that returned to its loader ``gaps`` times, after 1 s each, and is now between two epochs."""
    builder = RankBuilder()
    builder.calls = [Call(file="/home/me/project/train.py", function="main", line=58, loop=(55, 65))]
    for epoch in range(gaps + 1):
        builder.add("epoch_begins", loader=0, epoch=epoch, iter_ns=S // 100, first_wait_ns=S // 100)
        for _ in range(100):
            builder.step(0.001, 0.05, ready=4)
        builder.add("epoch_ends", loader=0, epoch=epoch, batches=100, teardown_ns=0, ended_by=0)
        builder.now_ns += S
    return builder.open("outside", age, wchan="futex_wait_queue", os_state="S").stack(-1, 100, text)


SAVE_BY_SOCKET = stacks.SOCKET.replace(
    '  File "/home',
    '  File "/opt/venv/lib/python3.11/site-packages/torch/serialization.py", line 966 in save\n  File "/home',
    1,
)


def in_kernel(builder: RankBuilder, *, wchan: str = "rpc_wait_bit_killable") -> RankBuilder:
    """Half a minute in one uninterruptible wait goes by."""
    assert builder.span is not None
    builder.span = msgspec.structs.replace(builder.span, os_state="D", wchan=wchan)
    builder.half_a_minute()
    for row in builder.rows["processes"][-31:]:
        row["state"] = ord("D")
    return builder


class TestStorageThatDoesNotAnswer:
    """A process in state D often gives no stack, which is no reason to be silent."""

    @pytest.mark.parametrize(("phase", "scenario"), [("outside", "S53"), ("step", "S26")])
    def test_without_a_stack(self, phase: PhaseName, scenario: str) -> None:
        def waits(age: float) -> RunWindow:
            return run(in_kernel(trained().open(phase, age)))

        if phase == "outside":
            assert not hangs(waits(50.0)), "as after a first epoch it has 90 s"
        finding = only(waits(60.0))
        assert (finding.scenario, finding.severity) == (scenario, "critical")
        assert "storage that does not answer (rpc_wait_bit_killable)" in finding.title
        assert "does not react to signals" in finding.cause
        assert finding.stacks == []

    def test_with_a_stack_of_another_thread(self) -> None:
        builder = trained().open("step", 10.0).stack(-1, 100, ANOTHER_THREAD + stacks.SAVE)
        finding = only(run(in_kernel(builder)))
        assert (finding.scenario, finding.severity) == ("S52", "critical")
        assert "at train.py:61 in save" in finding.title
        assert "does not react to signals" not in finding.cause

    def test_another_kernel_function_is_named_and_not_called_storage(self) -> None:
        finding = only(run(in_kernel(trained().open("step", 10.0), wchan="kernel_clone")))
        assert "in an uninterruptible kernel wait (kernel_clone)" in finding.title
        assert "storage" not in finding.title

    def test_before_the_first_batch_and_after_the_last(self) -> None:
        for builder in (RankBuilder(), trained()):
            assert only(run(in_kernel(builder.open("outside", 90.0, batch=None)))).scenario == "S53"

    @pytest.mark.parametrize("state", ["S", "R"])
    def test_one_that_wakes_up_in_between_is_slow(self, state: str) -> None:
        builder = in_kernel(trained().open("outside", 400.0))
        builder.rows["processes"][-5]["state"] = ord(state)
        assert not detect(RunEvidence(run(builder)))

    def test_a_group_that_somebody_has_paused(self) -> None:
        """N12."""
        builder = in_kernel(trained().open("outside", 400.0), wchan="__refrigerator")
        assert not detect(RunEvidence(run(builder)))


AT_EXIT = """Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 1622 in _shutdown
"""

SERVER = """Thread 0x00007f2b1c3ff6c0 (most recent call first):
  File "/usr/lib/python3.11/selectors.py", line 415 in select
  File "/usr/lib/python3.11/socketserver.py", line 235 in serve_forever
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap
"""

ANOTHER_THREAD = """Current thread 0x00007f2b1c3ff6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 982 in run
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

"""


class TestStuckInItsOwnCode:
    """Outside the loader, with nobody else to blame."""

    def test_a_queue_whose_thread_has_ended(self) -> None:
        """S54: the thread's end was seen, so the shortest limit applies; the loader's thread is named."""
        builder = between_passes(10.0, stacks.QUEUE, gaps=0)
        builder.calls = [Call(file="/home/me/project/train.py", function="<module>", line=98, loop=(90, 99))]
        assert not hangs(run(builder.half_a_minute()))
        builder.loaders[0] = loader(reader="fill", reader_error="OSError")
        finding = only(run(builder))
        assert (finding.scenario, finding.severity) == ("S41", "critical")
        assert "thread fill, which reads train_loader, died of OSError" in finding.title
        assert "not the data loader" not in finding.title

    @pytest.mark.parametrize(
        ("error", "in_lock", "scenario", "clears"),
        [("OSError", 1.0, "S41", False), (None, 1.0, "S53", False), ("OSError", 0.3, "S53", True)],
    )
    def test_a_queue_without_python_code(
        self, error: str | None, in_lock: float, scenario: str, clears: bool
    ) -> None:
        """``queue.SimpleQueue`` waits in C: the kernel reports a lock, the stack ends at the calling line."""
        builder = between_passes(10.0, stacks.main_in(user="train"))
        builder.calls = [Call(file="/home/me/project/train.py", function="<module>", line=98, loop=(90, 99))]
        builder.loaders[0] = loader(reader="fill", reader_error=error)
        builder.helpers["lock_wait"] = in_lock
        finding = only(run(builder.half_a_minute()))
        assert (finding.scenario, finding.severity) == (scenario, "critical")
        assert ("; not the data loader" in finding.title) is clears
        names = "thread fill, which reads train_loader, died of OSError" in finding.title
        assert names is (scenario == "S41")

    @pytest.mark.parametrize(
        ("error", "asleep", "state"),
        [("OSError", 1.0, "S"), ("OSError", 1.0, "R"), (None, 1.0, "S"), ("OSError", 0.3, "S")],
    )
    def test_a_loop_that_polls_for_what_a_lost_thread_brought(
        self, error: str | None, asleep: float, state: str
    ) -> None:
        """The thread is known to have ended. If not, or if the process often works, the loop may poll freely.

        A loop that polls is now and then met awake: its thread is named then, too.
        """
        builder = between_passes(10.0)
        assert builder.span is not None
        builder.span = msgspec.structs.replace(builder.span, os_state=state)
        builder.calls = [Call(file="/home/me/project/train.py", function="<module>", line=98, loop=(90, 99))]
        builder.loaders[0] = loader(reader="fill", reader_error=error)
        found = hangs(run(builder.half_a_minute(cpu=0.01, switches_per_s=100.0, timer_wait=asleep)))
        if error is None or asleep < 0.5:
            assert not [finding for finding in found if finding.severity != "info"]
            return
        (finding,) = found
        assert (finding.scenario, finding.severity) == ("S41", "critical")
        assert "thread fill, which reads train_loader, died of OSError" in finding.title

    @pytest.mark.parametrize(
        ("wchan", "severity"),
        [
            ("tcp_recvmsg", "critical"),
            ("locks_lock_inode_wait", "critical"),
            ("futex_wait_queue", "warning"),
            ("hrtimer_nanosleep", "info"),
            ("inet_csk_accept", "info"),
        ],
    )
    def test_before_the_first_batch(self, wchan: str, severity: str) -> None:
        """At start-up: ten times the floor, as nothing is known of how long it may take."""

        def started(age: float) -> RunWindow:
            builder = RankBuilder().open("outside", age, batch=None, wchan=wchan, os_state="S")
            return run(builder.stack(-1, 100, stacks.SOCKET).half_a_minute())

        assert not detect(RunEvidence(started(200.0)))
        (finding,) = detect(RunEvidence(started(300.0)))
        assert (finding.scenario, finding.severity) == ("S53", severity)
        assert "has not yet asked its loader for the first batch" in finding.cause

    def test_between_two_epochs(self) -> None:
        finding = only(run(between_passes(10.0).half_a_minute()))
        assert (finding.scenario, finding.severity, finding.lost_s) == ("S53", "critical", 40.0)
        assert finding.title == (
            "Training has made no progress at train.py:61 in main for 40 s, waiting for a lock that is never"
            " released (futex_wait_queue); not the data loader."
        )
        assert "its loop returns to the loader" in finding.cause
        assert "DataLoader" not in finding.advice

    @pytest.mark.parametrize(("age", "told"), [(50.0, False), (70.0, True)])
    def test_the_first_time_more_patience_is_due(self, age: float, told: bool) -> None:
        assert bool(hangs(run(between_passes(age, gaps=0).half_a_minute()))) is told

    def test_a_queue_that_nobody_fills(self) -> None:
        builder = between_passes(10.0, stacks.QUEUE)
        builder.calls = [Call(file="/home/me/project/train.py", function="<module>", line=98, loop=(90, 99))]
        finding = only(run(builder.half_a_minute()))
        assert ", because its queue stays empty; not the data loader." in finding.title
        assert "the thread that fills the queue" in finding.advice

    @pytest.mark.parametrize(
        ("text", "because", "advice"),
        [
            (stacks.POOL, "a pool of processes or threads that does not answer;", "BrokenProcessPool"),
            (
                stacks.FUTURE,
                "a future that does not complete; its threads are at train.py:83 in encode;",
                "a second executor",
            ),
        ],
    )
    def test_what_a_pool_is_to_do(self, text: str, because: str, advice: str) -> None:
        builder = trained().open("step", 10.0, wchan="futex_do_wait", os_state="S").stack(-1, 100, text)
        finding = only(run(builder.half_a_minute()))
        assert finding.severity == "critical"
        assert f"for 40 s, waiting for {because}" in finding.title
        assert advice in finding.advice

    def test_a_dataset_that_waits_for_a_thread_of_its_own(self) -> None:
        """Without workers: as in an event loop that waits for itself."""
        builder = RankBuilder(loaders=[loader(num_workers=0)])
        for _ in range(30):
            builder.step(0.001, 0.05)
        builder.open("wait", 10.0, batch=30, wchan="futex_do_wait", os_state="S")
        finding = only(run(builder.stack(-1, 100, stacks.FUTURE).half_a_minute()))
        assert "waiting for a future that does not complete; its threads are at train.py:83" in finding.title

    @pytest.mark.parametrize(
        ("phase", "text", "told"),
        [
            ("optimizer", stacks.OPTIMIZER, True),
            ("step", stacks.OPTIMIZER, False),
            ("optimizer", stacks.SAVE, False),
        ],
    )
    def test_a_step_of_the_optimizer_that_computes_without_an_end(
        self, phase: PhaseName, text: str, told: bool
    ) -> None:
        """As a line search does whose loss is no number; elsewhere who computes is believed to be at work."""
        builder = trained().open(phase, 10.0).stack(-1, 100, text)
        found = [
            finding
            for finding in hangs(run(builder.half_a_minute(cpu=1.0)))
            if finding.severity == "critical"
        ]
        assert bool(found) is told
        for finding in found:
            assert finding.title == (
                "Training has been in one optimizer step for 40 s, at train.py:47 in loss_fn,"
                " still computing; not the data loader."
            )
            assert "99 % of the optimizer steps end within 50 ms" in finding.cause
            assert "isfinite" in finding.advice

    @pytest.mark.parametrize("phase", ["step", "outside"])
    def test_an_event_that_nobody_sets(self, phase: PhaseName) -> None:
        """No lock is held: its thread has ended, say, before it set the event."""
        builder = between_passes(10.0, stacks.EVENT)
        if phase == "step":
            builder = trained().open(phase, 10.0, wchan="futex_do_wait", os_state="S")
            builder.stack(-1, 100, stacks.EVENT)
        finding = only(run(builder.half_a_minute()))
        assert finding.severity == "critical"
        assert "for 40 s, waiting for another of its threads, which does not answer" in finding.title
        assert "lock" not in finding.title
        assert "Look in the job's log for an exception of that thread" in finding.advice

    def test_gaps_are_learned(self) -> None:
        builder = between_passes(5.0)
        for row in builder.rows["epoch_begins"][1:]:
            row["request_ns"] += 3 * S  # the gap before it was four seconds
        assert not hangs(run(builder.half_a_minute()))
        assert hangs(run(builder.half_a_minute()))

    @pytest.mark.parametrize("phase", ["step", "outside"])
    def test_a_save_that_never_returns(self, phase: PhaseName) -> None:
        builder = (
            trained().open(phase, 10.0, wchan="wait_for_partner", os_state="S").stack(-1, 100, stacks.SAVE)
        )
        finding = only(run(builder.half_a_minute(written_per_s=0.0)))
        assert (finding.scenario, finding.severity) == ("S52", "critical")
        assert finding.title == (
            "A save hangs at train.py:61 in save: no data written for 40 s,"
            " opening a named pipe that no other process opens (wait_for_partner)."
        )
        assert "ls -l /proc/100/fd" in finding.advice


class TestNotHung:
    """Slow, or nobody's fault."""

    def test_a_worker_that_goes_on_from_sample_to_sample(self) -> None:
        builder = trained().open("wait", 50.0, awaited_worker=1)
        builder.worker(1, "fetch", 50.0, sample_age=3.0, sample_index=9, os_state="R")
        assert not hangs(run(builder))

    def test_a_worker_that_still_reads(self) -> None:
        builder = blocked()
        for second in range(40):
            builder.process(
                worker=1, pid=201, cpu=0.1, t_ns=builder.now_ns - second * S, read_chars=9e9 - second * 1e6
            )
        assert not hangs(run(builder))
        assert [
            finding.severity for finding in detect(RunEvidence(run(builder))) if finding.code == "hung"
        ] == ["info"]

    @pytest.mark.parametrize(
        ("age", "sample_age", "cpu", "told"),
        [
            (90.0, 89.0, 0.9, True),
            (45.0, 44.0, 0.9, False),
            (90.0, 89.0, 0.2, False),
            (90.0, 10.0, 0.9, False),
        ],
    )
    def test_a_sample_that_is_tried_again_and_again(
        self, age: float, sample_age: float, cpu: float, told: bool
    ) -> None:
        """S22 with a file that cannot be read: it reads all the while, and computes as well."""
        builder = trained().open("wait", age, awaited_worker=1).worker(0, "idle", age - 2)
        builder.worker(1, "fetch", age, sample_age=sample_age, os_state="S", sample_index=18_432)
        for second in range(int(age)):
            at = {"t_ns": builder.now_ns - second * S, "read_chars": 9e9 - second * 1e6}
            builder.process(worker=1, pid=201, cpu=cpu, **at)
        found = hangs(run(builder))
        assert [(finding.scenario, finding.worker) for finding in found] == ([("S22", 1)] if told else [])

    @pytest.mark.parametrize(("per_s", "moves"), [(1e6, True), (4e3, False)])
    def test_a_worker_that_reads_a_mapped_file(self, per_s: float, moves: bool) -> None:
        """Its read() stands still, its storage does not; a few pages of a program are no reading."""
        builder = blocked()
        for second in range(40):
            at = {"read_chars": 5.0, "read_bytes": 9e9 - second * per_s}
            builder.process(worker=1, pid=201, cpu=0.1, t_ns=builder.now_ns - second * S, **at)
        assert bool(hangs(run(builder))) is not moves

    def test_an_old_envelope_is_no_old_wait(self) -> None:
        """N17: the server is late, not the training."""
        builder = blocked(5.0)
        window = run(builder)
        late = replace(window, now_ns=window.now_ns + 600 * S)
        assert not hangs(late)

    def test_a_process_that_is_gone(self) -> None:
        builder = blocked()
        builder.state = "crashed"
        assert not hangs(run(builder))

    def test_a_traced_process(self) -> None:
        """N19: a debugger is attached."""
        builder = trained().open("wait", 60.0, awaited_worker=1, traced=True)
        builder.worker(1, "fetch", 60.0, sample_age=59.0, sample_index=5)
        assert not hangs(run(builder))

    @pytest.mark.parametrize("text", [stacks.DEBUGGER, stacks.NOTEBOOK_IDLE])
    def test_a_person_at_a_prompt(self, text: str) -> None:
        """N07."""
        builder = trained().open("step", 2000.0).stack(-1, 100, text)
        assert not detect(RunEvidence(run(builder)))

    def test_input(self) -> None:
        builder = trained().open("step", 2000.0, wchan="n_tty_read", os_state="S")
        assert not detect(RunEvidence(run(builder)))

    @pytest.mark.parametrize(
        ("terminal", "text", "quiet"),
        [
            (True, stacks.main_in(user="ask"), True),
            (False, stacks.main_in(user="ask"), False),
            (True, stacks.SOCKET, False),
        ],
    )
    def test_input_on_a_newer_kernel(self, terminal: bool, text: str, quiet: bool) -> None:
        """wait_woken is where a read from a terminal sleeps, and one from a network connection as well."""
        builder = trained().open("step", 60.0, wchan="wait_woken", os_state="S").stack(-1, 100, text)
        builder.terminal = terminal
        assert bool(detect(RunEvidence(run(builder)))) is not quiet

    def test_outside_of_any_loader(self) -> None:
        """N01, N15: validation that nobody watches, or the end of training. Where it stands is a remark."""

        def outside(age: float, **does: float) -> RankBuilder:
            builder = trained().open("outside", age - 30).stack(-1, 100, stacks.main_in(user="report"))
            return builder.half_a_minute(**does)

        assert not detect(RunEvidence(run(trained().open("outside", 4000.0).half_a_minute())))  # no stack
        before = trained().stack(-1, 100, stacks.main_in(user="report"))
        assert not detect(RunEvidence(run(before.open("outside", 4000.0).half_a_minute())))
        assert not detect(RunEvidence(run(outside(200.0))))  # too early
        assert not detect(RunEvidence(run(outside(4000.0, cpu=0.3))))
        assert not detect(RunEvidence(run(outside(4000.0, switches_per_s=10.0))))  # it polls
        (finding,) = detect(RunEvidence(run(outside(4000.0))))
        assert (finding.scenario, finding.severity) == ("S53", "info")
        assert finding.title == (
            "Training has made no progress at train.py:61 in report for 66 min 40 s; not the data loader."
        )
        assert "outside its training loops" in finding.cause

    def test_a_lone_process_at_its_end(self) -> None:
        """Where nobody stays on purpose: in a wait for one thing, and in the end of the interpreter."""

        def ended(text: str, wchan: str, **does: float) -> list[Finding]:
            builder = trained().open("outside", 400.0, wchan=wchan, os_state="S").stack(-1, 100, text)
            return detect(RunEvidence(run(builder.half_a_minute(**does))))

        for text, wchan in ((stacks.SOCKET, "sk_wait_data"), (AT_EXIT, "futex_do_wait")):
            (finding,) = ended(text, wchan)
            assert (finding.scenario, finding.severity) == ("S53", "warning")
            assert not ended(text, wchan, cpu=0.4), "its threads are at work"
        for text, wchan in (
            (stacks.SOCKET, "inet_csk_accept"),
            (AT_EXIT + SERVER, "futex_do_wait"),
            (stacks.main_in(user="keep_alive"), "hrtimer_nanosleep"),
            (stacks.QUEUE, "futex_do_wait"),
            (stacks.CHILD, "do_wait"),
        ):
            (finding,) = ended(text, wchan)
            assert finding.severity == "info", "N23: it serves, sleeps, or waits for a child or for work"

    def test_another_program_that_one_rank_runs_first(self) -> None:
        """N30: it unpacks or downloads, and its work is not in the rank's own CPU time; but not forever."""

        def ranks(age: float, text: str) -> list[Finding]:
            barrier = stacks.main_in("barrier", "wrapper")
            built = [trained(number, 2).open("outside", age - 30, wchan="do_wait") for number in (0, 1)]
            for rank, stack in zip(built, (text, barrier), strict=True):
                rank.stack(-1, 100 + rank.rank, stack).half_a_minute()
            return detect(RunEvidence(run(*built)))

        assert not ranks(250.0, stacks.CHILD)
        assert ranks(250.0, stacks.main_in(user="read"))
        assert ranks(1000.0, stacks.CHILD)

    def test_ranks_in_joins(self) -> None:
        """Without a collective; a single rank may wait for a thread of its own, all of them hardly."""
        join = stacks.main_in(user="close").replace(
            '  File "/home', '  File "/usr/lib/python3.11/threading.py", line 1119 in join\n  File "/home', 1
        )

        def ranks(**does: float) -> list[Finding]:
            built = [trained(number, 2).open("outside", 400.0, wchan="futex_do_wait") for number in (0, 1)]
            for rank in built:
                rank.stack(-1, 100 + rank.rank, join)
            return detect(RunEvidence(run(built[0].half_a_minute(), built[1].half_a_minute(**does))))

        (finding,) = ranks()
        assert (finding.scenario, finding.severity) == ("S53", "warning")
        assert not ranks(cpu=0.4)

    def test_after_the_last_epoch(self) -> None:
        """N23: in the function that trained, but past its loop; or where none of its loops is known."""
        builder = trained().open("outside", 4000.0).stack(-1, 100, stacks.main_in(user="main"))
        builder.calls = [Call(file="/home/me/project/train.py", function="main", line=50, loop=(40, 60))]
        assert not hangs(run(builder.half_a_minute()))

    def test_after_a_loop_that_was_left_with_break(self) -> None:
        """N15: while the iterator lives, its last step has no end that anybody sees."""
        builder = trained().open("step", 4000.0).stack(-1, 100, stacks.main_in(user="main"))
        builder.half_a_minute()
        assert hangs(run(builder))
        builder.calls = [Call(file="/home/me/project/train.py", function="main", line=50, loop=(50, 60))]
        (finding,) = detect(RunEvidence(run(builder)))
        assert finding.severity == "info"

    @pytest.mark.parametrize(("wchan", "told"), [("hrtimer_nanosleep", False), ("futex_wait_queue", True)])
    def test_a_step_that_sleeps(self, wchan: str, told: bool) -> None:
        """N09, N13: a sleep ends at a time that the script has set."""
        builder = trained().open("step", 10.0, wchan=wchan, os_state="S")
        builder.stack(-1, 100, stacks.main_in(user="throttle")).half_a_minute()
        assert bool(hangs(run(builder))) is told

    @pytest.mark.parametrize(("asleep", "told"), [(1.0, False), (0.0, True)])
    def test_a_sleeper_that_was_woken_to_write_its_stack_still_sleeps(
        self, asleep: float, told: bool
    ) -> None:
        """N09 on a busy machine: it waits for a CPU then, and the kernel names no function."""
        builder = trained().open("step", 10.0, wchan="0", os_state="R")
        builder.stack(-1, 100, stacks.main_in(user="throttle")).half_a_minute(timer_wait=asleep)
        assert bool(hangs(run(builder))) is told

    @pytest.mark.parametrize("moved", [{"cpu": 0.9}, {"written_per_s": 1e6}])
    def test_a_stack_of_before_says_nothing(self, moved: dict[str, float]) -> None:
        """N23: the save or last epoch ended after the stack was taken; the current wait is not known."""
        for text in (stacks.SAVE, stacks.main_in(user="main")):
            builder = between_passes(20.0, text).half_a_minute(**moved).half_a_minute()
            assert not hangs(run(builder))
            builder.stack(-1, 100, text)
            assert hangs(run(builder.half_a_minute()))

    @pytest.mark.parametrize(("phase", "age"), [("step", 100.0), ("outside", 100.0)])
    def test_no_excuse_is_for_ever(self, phase: PhaseName, age: float) -> None:
        """At ten times its limit a process that computes or compiles is a warning."""
        for text in (stacks.main_in(user="prepare"), stacks.COMPILING, stacks.main_in("backward")):
            builder = (
                between_passes(age, text)
                if phase == "outside"
                else trained().open(phase, age).stack(-1, 100, text)
            )
            builder.calls = [
                Call(file="/home/me/project/train.py", function="<module>", line=98, loop=(90, 99))
            ]
            assert not detect(RunEvidence(run(builder.half_a_minute(cpu=0.9))))
            for _ in range(10):
                builder.half_a_minute(cpu=0.9)
            builder.stack(-1, 100, text)
            (finding,) = detect(RunEvidence(run(builder.half_a_minute(cpu=0.9))))
            assert (finding.severity, finding.rank) == ("warning", 0)
            assert "still computing or reading" in finding.title
            assert "uses no CPU" not in finding.cause

    @pytest.mark.parametrize(("busy", "told"), [(0.01, True), (0.2, False)])
    def test_a_compiler_whose_pool_waits_for_itself(self, busy: float, told: bool) -> None:
        """Its children are processes of their own, so the host's CPUs say whether any of them is at work."""
        builder = trained().open("step", 10.0).stack(-1, 100, stacks.COMPILING)
        found = hangs(run(builder.half_a_minute(), busy=busy, host_rows=[{}] * 10))
        assert bool(found) is told
        assert not found or "no compiler on this host uses the CPU" in found[0].cause

    @pytest.mark.parametrize(("children", "told"), [(0.0, True), (0.4, False)])
    def test_a_compiler_of_ones_own_on_a_busy_host(self, children: float, told: bool) -> None:
        """If its children's CPU time is known, the host's load does not matter; also in the first step."""
        builder = RankBuilder().step(0.5, 1.0).open("step", 65.0).stack(-1, 100, stacks.COMPILING)
        builder.helpers = {"children_cpu_ratio": children, "children_switches_per_s": 0.0}
        found = hangs(run(builder.half_a_minute(), busy=0.9, host_rows=[{}] * 10))
        assert bool(found) is told
        assert not found or found[0].severity == "critical"

    def test_a_compiled_model_that_runs_is_not_called_compiling(self) -> None:
        text = stacks.main_in("_fn", user="forward").replace(
            "torch/nn/parallel/distributed", "torch/_dynamo/eval_frame"
        )
        builder = trained().open("step", 10.0).stack(-1, 100, text).half_a_minute()
        (finding,) = hangs(run(builder, busy=0.01, host_rows=[{}] * 10))
        assert "compile" not in finding.cause
        assert "compile" not in finding.advice

    @pytest.mark.parametrize(("woken", "severity"), [(0.0, "critical"), (20.0, "info")])
    def test_a_child_that_does_nothing_either(self, woken: float, severity: str) -> None:
        builder = between_passes(10.0, stacks.CHILD)
        builder.helpers = {"children_cpu_ratio": 0.0, "children_switches_per_s": woken}
        (finding,) = detect(RunEvidence(run(builder.half_a_minute())))
        assert finding.severity == severity

    @pytest.mark.parametrize(("ended", "named"), [(1.0, True), (0.0, False)])
    def test_a_pipe_of_a_child_that_has_ended(self, ended: float, named: bool) -> None:
        """The other end is open in this process, too, so that the pipe does not say so."""
        builder = trained().open("step", 40.0, wchan="unix_stream_read_generic", os_state="S")
        builder.stack(-1, 100, stacks.main_in(user="hard_examples"))
        builder.helpers = {"children_ended": ended, "children_cpu_ratio": 0.0, "children_switches_per_s": 0.0}
        finding = only(run(builder.half_a_minute()))
        assert ("1 child process has ended" in finding.cause) is named
        assert ("is_alive()" in finding.advice) is named

    def test_a_save_that_polls(self) -> None:
        """It waits for a lock file or a mount, and looks again and again: not a byte is written."""
        builder = trained().open("outside", 40.0).stack(-1, 100, stacks.SAVE)
        finding = only(run(builder.half_a_minute(cpu=0.1, switches_per_s=10.0)))
        assert (finding.scenario, finding.severity) == ("S52", "critical")
        assert "uses no CPU" not in finding.cause

    def test_a_process_that_waits_for_its_child(self) -> None:
        """Which may be at work."""
        builder = between_passes(60.0, stacks.CHILD)
        (finding,) = detect(RunEvidence(run(builder.half_a_minute())))
        assert finding.severity == "info"

    @pytest.mark.parametrize("does", [{"cpu": 0.3}, {"switches_per_s": 10.0}])
    def test_an_evaluation_of_ones_own_between_two_epochs(self, does: dict[str, float]) -> None:
        """N24."""
        assert not hangs(run(between_passes(60.0).half_a_minute(**does)))

    @pytest.mark.parametrize(
        ("age", "text", "does"),
        [
            (60.0, stacks.SAVE, {"cpu": 0.4}),
            (60.0, stacks.SAVE, {"written_per_s": 1e6}),
            (6000.0, stacks.SAVE, {"written_per_s": 1e6}),
            (60.0, SAVE_BY_SOCKET, {"switches_per_s": 10.0}),
        ],
    )
    def test_a_save_that_gets_on(self, age: float, text: str, does: dict[str, float]) -> None:
        """N22: it writes, for however long; or gathers what it will write; or sends, which is not counted."""
        assert not detect(
            RunEvidence(run(trained().open("step", age).stack(-1, 100, text).half_a_minute(**does)))
        )

    def test_outside_while_another_rank_is_at_work(self) -> None:
        def ranks(**does: float) -> RunWindow:
            built = [trained(0, 2), trained(1, 2)]
            for rank, text in zip(built, ("barrier", "report"), strict=True):
                rank.open("outside", 400.0).stack(-1, 100 + rank.rank, stacks.main_in(text))
            return run(built[0].half_a_minute(), built[1].half_a_minute(**does))

        (finding,) = detect(RunEvidence(ranks()))
        assert (finding.severity, finding.rank) == ("critical", 1)  # rank 0 waits for it
        assert not detect(RunEvidence(ranks(cpu=0.9)))

    @pytest.mark.parametrize(("floor_s", "told"), [(6.0, True), (30.0, False)])
    def test_after_the_last_epoch_ranks_stand_still_for_as_long_as_is_asked_for(
        self, floor_s: float, told: bool
    ) -> None:
        """20 s without any work are asked for, or the limit itself where that is less."""
        built = [trained(number, 2).open("outside", 0.0) for number in (0, 1)]
        for rank, text in zip(built, ("barrier", "report"), strict=True):
            rank.half_a_minute().stack(-1, 100 + rank.rank, stacks.main_in(text))
            assert rank.span is not None
            rank.span = msgspec.structs.replace(rank.span, since_ns=rank.now_ns - 19 * S)
        found = hangs(run(*built), hang_floor_s=floor_s)
        assert [finding.rank for finding in found] == ([1] if told else [])

    def test_a_checkpoint_in_a_phase_of_its_own(self) -> None:
        """N02: against its own history, or with much patience when it is the first."""
        first = trained()
        first.phase_names = ["checkpoint"]
        first.open("user", 200.0, phase_name="checkpoint")
        assert not hangs(run(first))
        known = trained()
        known.phase_names = ["checkpoint"]
        for _ in range(5):
            known.add("phases", name=0, duration_ns=60 * S, step=1)
        known.open("user", 300.0, phase_name="checkpoint")
        assert not hangs(run(known))

    def test_a_phase_that_stands_still_is_named(self) -> None:
        builder = trained()
        builder.phase_names = ["upload"]
        (finding,) = detect(RunEvidence(run(builder.open("user", 400.0, phase_name="upload"))))
        assert (finding.scenario, finding.severity) == ("S26", "info")
        assert 'Training has made no progress in its phase "upload" for' in finding.title

    def test_the_first_step(self) -> None:
        """N03: compiling takes minutes."""
        builder = RankBuilder().step(0.5, 1.0)
        builder.open("step", 200.0)
        assert not detect(RunEvidence(run(builder)))

    def test_compiling_again(self) -> None:
        builder = trained().open("step", 200.0).stack(-1, 100, stacks.COMPILING)
        assert not detect(RunEvidence(run(builder)))

    def test_a_long_step_that_computes(self) -> None:
        builder = trained()
        began = builder.now_ns
        builder.open("step", 200.0)
        for second in range(200):
            builder.process(worker=-1, pid=100, cpu=0.9, t_ns=began + second * S)
        assert not detect(RunEvidence(run(builder)))

    def test_a_lone_process_that_stands_still_is_a_remark_at_first(self) -> None:
        builder = trained().open("step", 60.0).stack(-1, 100, stacks.main_in(user="upload"))
        (finding,) = detect(RunEvidence(run(builder)))
        assert (finding.scenario, finding.severity) == ("S26", "info")
        assert "train.py:61 in upload" in finding.title
        later = trained().open("step", 400.0).stack(-1, 100, stacks.main_in(user="upload"))
        assert hangs(run(later))


def test_a_pause_of_everything_is_no_hang() -> None:
    """docker pause, a suspend: the streamer's own samples have the same hole."""

    def paused(hole_s: float) -> RankBuilder:
        builder = blocked(age=47.0, os_state="S", wchan="poll_schedule_timeout")
        for second in range(47):
            if not 1 <= second < hole_s:
                builder.process(worker=-1, pid=100, cpu=0.1, t_ns=builder.now_ns - (46 - second) * S)
        return builder

    assert hangs(run(paused(0)))
    assert hangs(run(paused(4)))
    assert not hangs(run(paused(40)))


def test_a_worker_under_a_debugger_is_no_hang() -> None:
    assert hangs(run(blocked(os_state="t")))
    assert not hangs(run(blocked(os_state="t", traced=True)))


def test_a_dead_worker_with_a_kill_of_the_kernel() -> None:
    builder = trained().open("wait", 47.0, awaited_worker=1).worker(0, "idle", 45.0)
    builder.worker(1, "fetch", 47.0, alive=False)
    rows = [{"oom_kills": 0.0}] * 3 + [{"oom_kills": 1.0}] * 3
    finding = only(run(builder, host_rows=rows))
    assert finding.scenario == "S37"
    assert "1 out-of-memory kill in" in finding.cause
    assert "out-of-memory" not in only(run(builder)).cause
