"""The script is over but its process does not end: the wait is named, and a working process is left alone."""

from __future__ import annotations

import pytest

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.hang.collectives import detect as in_collectives
from loaderwatch.detect.measures.progress import stuck
from loaderwatch.detect.shared_thresholds import Limits
from tests.unit.detect import stacks
from tests.unit.detect.build import RankBuilder, S, run

JOINS_THREAD = """Thread 0x00007f2b1c3ff6c0 (most recent call first):
  File "/home/me/project/train.py", line 21 in upload_metrics
  File "/usr/lib/python3.11/threading.py", line 982 in run
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 1622 in _shutdown
"""
JOINS_CHILD = """Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/usr/lib/python3.11/multiprocessing/popen_fork.py", line 27 in poll
  File "/usr/lib/python3.11/multiprocessing/popen_fork.py", line 43 in wait
  File "/usr/lib/python3.11/multiprocessing/process.py", line 149 in join
  File "/usr/lib/python3.11/multiprocessing/util.py", line 360 in _exit_function
"""
HANDLER = """Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/usr/lib/python3.11/socket.py", line 718 in readinto
  File "/home/me/project/train.py", line 12 in send_report
"""
DEEP = "Current thread 0x00007f2b28a4b740 (most recent call first):\n" + 100 * (
    '  File "/home/me/project/train.py", line 12 in recurse\n'
)
IDLE = {"threads_switches_per_s": 0.1, "children_switches_per_s": 0.2, "children_cpu_ratio": 0.0}


def trained(rank: int = 0, world: int = 1) -> RankBuilder:
    """A rank that returned to its loader twice within 1 s; these gaps say nothing about its end."""
    builder = RankBuilder(rank, world)
    for epoch in range(3):
        builder.add("epoch_begins", loader=0, epoch=epoch, iter_ns=0, first_wait_ns=0)
        for _ in range(20):
            builder.step(0.001, 0.05)
        builder.add("epoch_ends", loader=0, epoch=epoch, batches=20, teardown_ns=0, ended_by=0)
        builder.now_ns += S
    return builder


def ends(
    text: str,
    age: float = 65.0,
    *,
    helpers: dict[str, float] = IDLE,
    wchan: str = "futex_do_wait",
    switches_per_s: float = 0.0,
) -> RankBuilder:
    """A process that has been at its end for half a minute more than ``age``."""
    builder = trained().open("outside", age, batch=None, wchan=wchan, os_state="S").stack(-1, 100, text)
    builder.helpers = helpers
    return builder.half_a_minute(switches_per_s=switches_per_s)


def only(builder: RankBuilder) -> Finding:
    (finding,) = detect(RunEvidence(run(builder)))
    return finding


def test_a_thread_that_does_not_end_is_named_with_its_line() -> None:
    finding = only(ends(JOINS_THREAD))
    assert (finding.scenario, finding.severity) == ("S53", "critical")
    assert finding.title == (
        "The script has finished, but its process has not exited for 95 s: it waits for a thread, which is at"
        " train.py:21 in upload_metrics."
    )
    assert "daemon=True" in finding.advice
    assert "loader" not in finding.title


def test_of_several_threads_nobody_knows_which_it_is() -> None:
    other = (
        JOINS_THREAD.replace("0x00007f2b1c3ff6c0", "0x00007f2b1c3ff000")
        .replace("line 21", "line 30")
        .split("Current")[0]
    )
    assert (
        "it waits for a thread; its threads are at train.py:30 in upload_metrics and train.py:21"
        " in upload_metrics." in only(ends(other + JOINS_THREAD)).title
    )


def test_not_before_three_times_the_floor_whatever_the_gaps_between_epochs_were() -> None:
    assert not detect(RunEvidence(run(ends(JOINS_THREAD, 50.0))))


@pytest.mark.parametrize(
    ("text", "works"),
    [
        (JOINS_THREAD, {"threads_switches_per_s": 20.0}),
        (JOINS_CHILD, {"children_switches_per_s": 20.0}),
        (JOINS_CHILD, {"children_cpu_ratio": 0.9}),
    ],
)
def test_who_works_is_waited_for_rightly(text: str, works: dict[str, float]) -> None:
    """An upload in a thread, an evaluation in a child: a remark; but not forever."""
    assert only(ends(text, helpers=IDLE | works)).severity == "info"
    late = only(ends(text, 900.0, helpers=IDLE | works))
    assert (late.severity, "still" in late.cause) == ("warning", True)


@pytest.mark.parametrize("text", [JOINS_THREAD, JOINS_CHILD])
def test_where_nobody_knows_it_is_a_warning(text: str) -> None:
    finding = only(ends(text, helpers={}))
    assert finding.severity == "warning"
    assert "not known" in finding.cause


def test_a_child_that_does_not_end() -> None:
    finding = only(ends(JOINS_CHILD, wchan="do_wait"))
    assert (finding.scenario, finding.severity) == ("S53", "critical")
    assert finding.title.endswith("has not exited for 95 s: it waits for a child process.")


def test_a_worker_that_does_not_end_is_the_loaders() -> None:
    builder = ends(JOINS_CHILD, wchan="do_wait")
    builder.worker(0, "idle", 90.0, alive=False)
    builder.worker(1, "fetch", 97.0, sample_age=96.0, sample_index=7, wchan="sk_wait_data")
    builder.stack(1, 201, stacks.WORKER)
    finding = only(builder)
    assert (finding.scenario, finding.severity, finding.worker, finding.pid) == ("S36", "critical", 1, 201)
    assert finding.sample_indices == [7]
    assert (
        "has not exited for 95 s: worker 1 (pid 201) of train_loader is still in dataset[7] at data.py:42"
        " in load_image" in finding.title
    )
    assert "SIGTERM" in finding.advice
    assert [dump.worker for dump in finding.stacks] == [1, -1]


def test_a_function_that_runs_at_exit() -> None:
    finding = only(ends(HANDLER, wchan="sk_wait_data"))
    assert (finding.scenario, finding.severity) == ("S53", "critical")
    assert (
        "it is at train.py:12 in send_report, waiting for the network or a pipe that never answers"
        in finding.title
    )


NATIVE = (
    "Current thread 0x00007f2b28a4b740 (most recent call first):\n  Garbage-collecting\n  <no Python frame>\n"
)


def test_native_code_that_runs_when_python_is_taken_down() -> None:
    finding = only(ends(NATIVE))
    assert (finding.scenario, finding.severity) == ("S53", "critical")
    assert "for 95 s: it is in native code of a library, waiting for a lock" in finding.title
    assert "gdb -p 100" in finding.advice


@pytest.mark.parametrize(("over", "severity"), [(True, "critical"), (False, "warning")])
def test_a_rank_whose_script_goes_on_is_what_the_others_wait_for(over: bool, severity: str) -> None:
    """Its own wait may be meant; that of the others in what they take down is not."""
    native = ends(NATIVE if over else stacks.main_in(user="close"))
    native.world_size = 2
    holds = trained(1, 2).open("outside", 60.0, batch=None, wchan="locks_lock_inode_wait", os_state="S")
    holds.stack(-1, 101, stacks.main_in(user="write_results")).half_a_minute()
    (finding,) = detect(RunEvidence(run(native, holds)))
    assert finding.severity == severity
    if over:
        assert finding.title.startswith(
            "Rank 1 has made no progress at train.py:61 in write_results for 90 s, waiting for a file"
        )
        assert {one.label: one.value for one in finding.evidence}["limit learned for this phase"] == 90.0
        either = "The process of rank 0 does not exit either, although its script has finished."
        assert either in finding.cause


@pytest.mark.parametrize(("text", "wchan"), [(DEEP, "sk_wait_data"), (stacks.SOCKET, "sk_wait_data")])
def test_a_script_that_goes_on_is_not_at_its_end(text: str, wchan: str) -> None:
    """The outermost frame of a deep stack is not written."""
    for finding in detect(RunEvidence(run(ends(text, 400.0, wchan=wchan)))):
        assert "has finished" not in finding.title


def test_one_that_sleeps_or_polls_is_a_remark() -> None:
    assert only(ends(HANDLER, wchan="hrtimer_nanosleep")).severity == "info"
    assert not detect(RunEvidence(run(ends(HANDLER, switches_per_s=10.0))))


def test_of_several_ranks_the_one_is_named() -> None:
    builder = ends(JOINS_THREAD)
    other = trained(1, 2).open("outside", 95.0)
    builder.world_size, other.state = 2, "finished"
    (finding,) = detect(RunEvidence(run(builder, other)))
    assert finding.title.startswith("The script of rank 0 has finished, but its process has not exited")
    assert finding.severity == "critical"


def test_others_wait_for_a_rank_that_does_not_end() -> None:
    builder = ends(JOINS_THREAD)
    builder.world_size = 2
    other = trained(1, 2).open("outside", 65.0, wchan="ep_poll", os_state="S")
    other.stack(-1, 101, stacks.main_in("barrier")).half_a_minute()
    (finding,) = detect(RunEvidence(run(builder, other)))
    assert (finding.scenario, finding.rank, finding.severity) == ("S53", 0, "critical")
    assert finding.title.startswith("Rank 0 has been stuck at Python's exit (waiting for threads and child")
    assert finding.title.endswith("; rank 1 waits for rank 0 in `barrier` at train.py:61 in train_epoch.")


def test_a_collective_with_a_rank_that_has_ended() -> None:
    waits = trained(1, 2).open("outside", 65.0).stack(-1, 101, stacks.main_in("destroy_process_group"))
    waits.half_a_minute()
    gone = trained(0, 2).open("outside", 95.0)
    gone.state = "finished"
    (finding,) = detect(RunEvidence(run(gone, waits)))
    assert (finding.scenario, finding.rank, finding.severity) == ("S45", 1, "critical")
    assert finding.title == (
        "Rank 0 has exited; rank 1 waits for rank 0 in `destroy_process_group` at train.py:61 in train_epoch."
    )
    window = run(gone, waits)
    item = stuck(window.ranks[1], Limits())
    assert item is not None
    assert in_collectives(window, [item], Limits())
