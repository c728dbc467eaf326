"""Long steps: garbage collector, other work in the loop, new shapes. None of them is the loader."""

from __future__ import annotations

import re

import msgspec
import pytest

from loaderwatch.core.facts import LONG_STEP, Call
from loaderwatch.detect.codes import SLOW_STEP as CODE
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from tests.unit.detect import stacks
from tests.unit.detect.build import RankBuilder, S, loader, run, verdict_now


def begun(workers: int = 2, **fields: object) -> RankBuilder:
    builder = RankBuilder(loaders=[loader(num_workers=workers, **fields)])
    builder.add("epoch_begins", loader=0, epoch=0, iter_ns=S // 50, first_wait_ns=S // 50)
    return builder


@pytest.mark.parametrize(("every", "pause", "step"), [(10, 0.4, 0.05), (25, 1.2, 0.03), (7, 0.25, 0.1)])
def test_the_collector_is_named_by_its_own_clock(every: int, pause: float, step: float) -> None:
    builder = begun()
    for number in range(200):
        long = number % every == every - 1
        if long:
            builder.rows["collections"].append(
                {
                    "rank": 0,
                    "worker": -1,
                    "request_ns": builder.now_ns + int(0.01 * S),
                    "duration_ns": int(pause * S),
                    "generation": 2,
                }
            )
        builder.step(0.001, step + pause * long)
    (finding,) = detect(RunEvidence(run(builder)))
    assert (finding.scenario, finding.code) == ("S25", CODE)
    share = pause / (pause + every * (step + 0.001))
    assert finding.severity == ("critical" if share >= 0.3 else "warning")
    assert "gc.freeze()" in finding.advice
    values = {item.label: item.value for item in finding.evidence}
    assert values["longest pause of the collector"] == pytest.approx(pause, abs=0.01)
    assert finding.gain_ceiling_ratio == pytest.approx(share, abs=0.03)


def test_pauses_of_a_worker_are_not_the_loops() -> None:
    builder = begun()
    for number in range(100):
        builder.step(0.001, 0.05 + 0.5 * (number % 10 == 9))
        builder.add("collections", worker=1, duration_ns=S // 2)
    assert {finding.scenario for finding in detect(RunEvidence(run(builder)))} == {"S26"}


def test_short_collections_are_no_finding() -> None:
    builder = begun()
    for _ in range(200):
        builder.add("collections", worker=-1, duration_ns=S // 1000)
        builder.step(0.001, 0.05)
    assert detect(RunEvidence(run(builder))) == []


def test_collections_in_every_step_leave_no_spike_but_are_seen() -> None:
    builder = begun()
    for _ in range(200):
        builder.rows["collections"].append(
            {"rank": 0, "worker": -1, "request_ns": builder.now_ns + S // 100, "duration_ns": S // 20}
        )
        builder.step(0.001, 0.15)
    (finding,) = detect(RunEvidence(run(builder)))
    assert (finding.scenario, finding.severity) == ("S25", "critical")


@pytest.mark.parametrize("every", [5, 20, 33])
def test_work_in_the_loop_is_a_remark_with_its_rhythm(every: int) -> None:
    builder = begun()
    for number in range(200):
        builder.step(0.001, 0.05 + 0.6 * (number % every == every - 1))
    (finding,) = detect(RunEvidence(run(builder)))
    assert (finding.scenario, finding.severity) == ("S26", "info")
    assert f"every {every} steps" in finding.title
    assert "not the data loader" in finding.title


def test_the_rhythm_goes_on_across_short_epochs() -> None:
    """Of which the first batches say nothing of a usual step, so that they are no rows."""
    builder = begun()
    for number in range(220):
        if number % 11 == 0:
            builder.batch[0], builder.epoch[0] = 0, number // 11
            builder.add("epoch_begins", loader=0, epoch=number // 11, iter_ns=0, first_wait_ns=S // 1000)
        builder.step(0.001, 0.05 + 0.6 * (number % 10 == 9))
    (finding,) = detect(RunEvidence(run(builder)))
    assert (finding.scenario, finding.severity) == ("S26", "info")
    assert "every 10 steps" in finding.title


@pytest.mark.parametrize(
    ("delay", "every", "scenarios"),
    [(0.55, None, set()), (0.1, None, {"S26"}), (0.3, None, {"S26"}), (0.55, 20, {"S26"})],
    ids=["the delay explains it", "hardly any", "half of it is its own", "every 20th step"],
)
def test_a_loop_without_a_cpu_does_nothing_by_itself(
    delay: float, every: int | None, scenarios: set[str]
) -> None:
    """Only where it would not be long with a CPU, and not where it comes by the number of the step."""
    builder = begun()
    for number in range(200):
        long = number % every == 19 if every else number in (15, 39, 58, 90, 121, 139, 165, 182, 195)
        began_ns = builder.now_ns
        builder.step(0.001, 0.05 + 0.6 * long)
        if long:
            builder.process(worker=-1, pid=100, cpu=0.1, t_ns=began_ns + int(0.9 * S), run_delay_ratio=delay)
    assert {finding.scenario for finding in detect(RunEvidence(run(builder)))} == scenarios


def logging_loop(place: str | None = None) -> RankBuilder:
    """Every twentieth step takes long; a stack of the last of these shows where the loop then was."""
    builder = begun()
    for number in range(200):
        builder.step(0.001, 0.05 + 0.6 * (number % 20 == 19))
    if place is not None:
        builder.stack(-1, 100, stacks.main_in(user=place), why=LONG_STEP)
        builder.stacks[0] = msgspec.structs.replace(builder.stacks[0], taken_ns=builder.now_ns - S // 3)
    return builder


def test_the_line_of_the_last_long_step_is_named() -> None:
    (finding,) = detect(RunEvidence(run(logging_loop("log_pictures"))))
    assert ", seen at train.py:61 in log_pictures; not the data loader" in finding.title
    assert len(finding.stacks) == 1


@pytest.mark.parametrize(
    ("text", "asleep", "severity"),
    [
        (stacks.main_in(user="log_pictures"), 0, "warning"),
        (stacks.main_in(user="log_pictures"), 1, "info"),
        (stacks.SAVE, 0, "info"),
        (stacks.main_in("forward", user="evaluate"), 0, "info"),
        (stacks.main_in("_engine_run_backward", "backward"), 0, "info"),
        (stacks.main_in("named_parameters", user="write_weights"), 0, "warning"),
    ],
    ids=["at work", "a throttle", "a checkpoint", "an evaluation", "a backward pass", "at work on weights"],
)
def test_costly_work_that_is_seen_is_an_alert(text: str, asleep: int, severity: str) -> None:
    builder = logging_loop("log_pictures")
    builder.stacks[0] = msgspec.structs.replace(builder.stacks[0], text=text)
    builder.add("processes", pid=100, worker=-1, t_ns=builder.now_ns - S // 3, timer_wait=asleep)
    (finding,) = detect(RunEvidence(run(builder)))
    assert (finding.scenario, finding.severity) == ("S26", severity)


@pytest.mark.parametrize(
    ("function", "severity"), [("wait_for_file", "warning"), ("train", "info")], ids=["a helper", "the loop"]
)
def test_who_looks_for_something_asleep_in_between_means_to_go_on(function: str, severity: str) -> None:
    """A sleep in a loop of its own is no throttle; one of the training loop itself may be."""
    builder = logging_loop(function)
    builder.stacks[0] = msgspec.structs.replace(builder.stacks[0], polls=True)
    builder.calls = [Call(file="/home/me/project/train.py", function="train", line=40, loop=(30, 70))]
    builder.add("processes", pid=100, worker=-1, t_ns=builder.now_ns - S // 3, timer_wait=1)
    (finding,) = detect(RunEvidence(run(builder)))
    assert (finding.scenario, finding.severity) == ("S26", severity)
    assert ("The loop polls for something" in finding.cause) is (severity == "warning")


def test_an_agent_that_plays_is_a_remark() -> None:
    """It computes for the script, and that may well be most of such a training."""
    builder = logging_loop("play")
    builder.loaders[0] = msgspec.structs.replace(builder.loaders[0], acts=True)
    (finding,) = detect(RunEvidence(run(builder)))
    assert (finding.scenario, finding.severity) == ("S26", "info")
    assert "as an agent or an evaluation does" in finding.cause


def test_a_file_lock_that_another_process_holds_is_named() -> None:
    builder = logging_loop("report")
    builder.stacks[0] = msgspec.structs.replace(builder.stacks[0], wchan="locks_lock_inode_wait")
    (finding,) = detect(RunEvidence(run(builder)))
    assert finding.cause.endswith("The loop waits for a file lock that another process holds.")
    assert finding.advice.startswith("Find the holder of the lock with `lslocks`")


def reading(*torchs: str) -> RankBuilder:
    """The long steps read a sample, through these files of PyTorch's."""
    builder = logging_loop("evaluate")
    (dump,) = builder.stacks
    head, frames = dump.text.split("\n", 1)
    within = [
        f'  File "/opt/lib/python3/site-packages/torch/utils/data/{name}", line 9 in read' for name in torchs
    ]
    sample = '  File "/home/me/data.py", line 9 in __getitem__'
    builder.stacks[0] = msgspec.structs.replace(dump, text="\n".join([head, sample, *within, frames]))
    return builder


def test_the_line_stays_while_the_next_long_step_goes_on() -> None:
    """Each process keeps its newest stack. An open step has a stack but no row yet."""
    builder = logging_loop("log_pictures")
    (dump,) = builder.stacks
    builder.open("step", 0.5)
    builder.stacks[0] = msgspec.structs.replace(dump, taken_ns=builder.now_ns - S // 4)
    (finding,) = detect(RunEvidence(run(builder)))
    assert ", seen at train.py:61 in log_pictures; not the data loader" in finding.title


def test_a_sample_that_the_loop_reads_by_hand_is_no_loader() -> None:
    (finding,) = detect(RunEvidence(run(reading("dataset.py"))))
    assert ", seen at data.py:9 in __getitem__; not the data loader" in finding.title


def test_a_loader_in_the_step_that_is_not_attached_is_no_innocent() -> None:
    (finding,) = detect(RunEvidence(run(reading("_utils/fetch.py", "dataloader.py"))))
    assert ", seen at train.py:61 in evaluate, reading a DataLoader that is not attached." in finding.title
    assert finding.advice.startswith("Attach that loader too")


def test_a_stack_of_a_usual_step_says_nothing() -> None:
    builder = logging_loop().step(0.001, 0.05)
    builder.stack(-1, 100, stacks.main_in(user="train_epoch"))
    (finding,) = detect(RunEvidence(run(builder.step(0.001, 0.05))))
    assert "train_epoch" not in finding.title


def test_a_costly_remark_is_said_first() -> None:
    window = run(logging_loop())
    said = verdict_now(window, detect(RunEvidence(window)))
    assert said.severity == "info"
    assert re.search(r"of the time \(over \d+ s\) in 10 long steps", said.title)


def test_a_rhythm_in_seconds() -> None:
    builder = begun()
    due = builder.now_ns
    for number in range(900):
        long = builder.now_ns >= due
        if long:
            due += 5 * S
        builder.step(0.001, (0.05 if number % 3 else 0.06) + 0.8 * long)
    (finding,) = detect(RunEvidence(run(builder)))
    assert finding.scenario == "S26"
    assert "every 5." in finding.title or "every 4.9" in finding.title


@pytest.mark.parametrize("found_after", [0, 9], ids=["an optimizer that is given", "one that is found"])
def test_gradient_accumulation_is_not_even_a_remark(found_after: int) -> None:
    builder = begun()
    for number in range(200):
        last = number % 8 == 7
        known = {"optimizer_steps": int(last)} if number >= found_after else {}
        builder.step(0.001, 0.03 + 0.4 * last, **known)
    assert detect(RunEvidence(run(builder))) == []


def test_batches_taken_at_once_are_no_long_step_but_a_logger_among_them_is() -> None:
    """Some of the optimizer's steps are too quick to count as long."""
    for logs in (0.0, 3.0):
        builder = begun()
        for number in range(480):
            last = number % 8 == 7
            own_s = (0.09 if number % 16 == 7 else 0.12) if last else 0.0002
            builder.step(0.001, own_s + logs * (number % 80 == 79), optimizer_steps=int(last))
        found = [finding.title for finding in detect(RunEvidence(run(builder)))]
        assert len(found) == (1 if logs else 0)
        assert all("every 80 steps" in title for title in found)


def test_the_first_steps_are_warm_up() -> None:
    builder = begun(workers=0)
    for number in range(60):
        builder.step(0.001, 9.0 if number < 3 else 0.05)
    assert detect(RunEvidence(run(builder))) == []


def shaped(sizes: list[int], long_s: float, *, workers: int) -> RankBuilder:
    """Steps of batches of these sizes; a size never seen before takes long."""
    builder = begun(workers=workers)
    seen: set[int] = set(sizes[:5])
    for number, size in enumerate(sizes):
        worker = number % workers if workers else -1
        builder.fetch(worker, 0.002, bytes=size)
        builder.rows["fetches"][-1]["request_ns"] = builder.now_ns + 1
        fields = {} if workers else {"awaited_worker": -(2**63)}
        builder.step(0.003, 0.04 + (long_s if size not in seen else 0.0), **fields)
        seen.add(size)
    return builder


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_long_steps_with_new_shapes(workers: int) -> None:
    sizes = [4096] * 20
    for new in (5000, 6000, 7000, 8000):
        sizes += [new, *[4096] * 9, new, 4096]
    (finding,) = detect(RunEvidence(run(shaped(sizes, 1.5, workers=workers))))
    assert (finding.scenario, finding.severity) == ("S27", "critical")
    assert "batches of a new size" in finding.title
    assert "drop_last=True" in finding.advice


def padded(large_s: float, *, every: int = 12, elsewhere: int = 0) -> RankBuilder:
    """Batches of many sizes. Each ``every``-th is six times as large, and its step takes ``large_s`` longer.

    As many steps as ``elsewhere`` says are large as well and take no longer.
    """
    builder = begun(workers=2)
    for number in range(240):
        large = number % every == every - 1
        quiet = elsewhere > 0 and number % every < elsewhere
        builder.fetch(number % 2, 0.002, bytes=(24_000 if large or quiet else 4_000) + 7 * number)
        builder.rows["fetches"][-1]["request_ns"] = builder.now_ns + 1
        builder.step(0.003, 0.04 + large_s * large)
    return builder


def test_long_steps_with_batches_several_times_larger() -> None:
    (finding,) = detect(RunEvidence(run(padded(0.5))))
    assert (finding.scenario, finding.severity) == ("S27", "warning")
    assert re.search(r"with batches about [56]\.\d times larger than usual", finding.title)
    assert "similar length" in finding.advice


def test_large_batches_that_cost_little_wake_nobody() -> None:
    (finding,) = detect(RunEvidence(run(padded(0.3, every=40))))
    assert (finding.scenario, finding.severity) == ("S27", "info")


def test_large_batches_are_no_cause_where_most_of_them_are_quick() -> None:
    assert [finding.scenario for finding in detect(RunEvidence(run(padded(0.5, elsewhere=4))))] == ["S26"]


def test_sizes_that_never_repeat_prove_nothing() -> None:
    builder = begun(workers=1)
    for number in range(120):
        builder.fetch(0, 0.002, bytes=1000 + number)
        builder.rows["fetches"][-1]["request_ns"] = builder.now_ns + 1
        builder.step(0.003, 0.04 + 0.8 * (number % 15 == 14))
    assert [finding.scenario for finding in detect(RunEvidence(run(builder)))] == ["S26"]


def test_a_compiler_on_the_stack_is_proof_enough() -> None:
    builder = begun()
    compiler = (
        "Thread 0x1 (most recent call first):\n"
        '  File "/x/site-packages/torch/_dynamo/convert_frame.py", line 1 in _compile\n'
        '  File "/home/me/train.py", line 7 in <module>\n'
    )
    for number in range(60):
        long = number in (20, 40)
        if long:
            builder.stack(-1, 100, compiler)
            builder.stacks[-1] = type(builder.stacks[-1])(
                rank=0, worker=-1, pid=100, taken_ns=builder.now_ns + 5 * S, text=compiler
            )
        builder.step(0.001, 0.05 + 8.0 * long)
    (finding,) = detect(RunEvidence(run(builder)))
    assert finding.scenario == "S27"
    assert "train.py:7" in finding.cause
    assert finding.stacks


def test_one_rank_collects_and_the_others_wait_for_it() -> None:
    ranks = [RankBuilder(rank, 2, loaders=[loader(num_workers=2)]) for rank in range(2)]
    for number in range(120):
        long = number % 12 == 11
        for builder in ranks:
            if long and builder.rank == 1:
                builder.rows["collections"].append(
                    {"rank": 1, "worker": -1, "request_ns": builder.now_ns + S // 100, "duration_ns": S}
                )
            builder.step(0.001, 0.05 + 1.0 * long)
    (finding,) = detect(RunEvidence(run(*ranks)))
    assert (finding.scenario, finding.rank) == ("S25", 1)
