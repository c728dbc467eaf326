"""Ranks that wait for each other: the odd one is named, on both sides."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from loaderwatch.core.facts import Call, FlightEntry, FlightGroup
from loaderwatch.core.records import EndedBy
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, texts_of
from loaderwatch.detect.hang import detector as hang
from loaderwatch.detect.hang.rank_positions import places, somebody_waits, without_stack
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.window import RunWindow
from loaderwatch.texts import say
from tests.unit.detect import stacks
from tests.unit.detect.build import T0, RankBuilder, S, loader, run

BACKWARD = stacks.main_in("_engine_run_backward", "backward")
BUFFERS = stacks.main_in(
    "_distributed_broadcast_coalesced", "_sync_module_buffers", "_sync_buffers", "_pre_forward"
)
BARRIER = stacks.main_in("barrier", "wrapper")


def rank(number: int, world: int = 2, *, batches: int = 30, planned: int = 40) -> RankBuilder:
    builder = RankBuilder(number, world, loaders=[loader(batches=planned)])
    for _ in range(batches):
        builder.step(0.001, 0.05, ready=4)
    return builder


def stuck(
    number: int, text: str, *, age: float = 40.0, batch: int = 29, epoch: int = 0, **more: Any
) -> RankBuilder:
    builder = rank(number, **more)
    builder.open("step", age, batch=batch, epoch=epoch)
    return builder.stack(-1, 100 + number, text)


def left(
    number: int, text: str = BARRIER, *, age: float = 40.0, batches: int = 12, epoch: int = 0
) -> RankBuilder:
    """A rank that has ended its epoch."""
    builder = rank(number, batches=batches, planned=batches)
    builder.add(
        "epoch_ends", loader=0, epoch=epoch, teardown_ns=0, batches=batches, ended_by=int(EndedBy.EXHAUSTED)
    )
    builder.open("outside", age, batch=None)
    return builder.stack(-1, 100 + number, text)


@pytest.mark.parametrize(("side", "other"), [("send", "receives"), ("recv", "sends")])
def test_all_on_one_side_of_an_exchange(side: str, other: str) -> None:
    text = stacks.main_in(side, user="exploit")
    finding = only(run(stuck(0, text), stuck(1, text)))
    assert (finding.scenario, finding.severity) == ("S45", "critical")
    assert finding.title == (
        f"Both ranks have made no progress in {side} for 40 s, at train.py:61 in exploit:"
        f" none of them {other}."
    )


def test_one_collective_from_two_lines_is_two() -> None:
    """Each rank calls the same function, and one of them another time than the other."""
    one, other = (
        stacks.main_in("all_reduce", user=user) for user in ("tell_of_overflow", "average_gradients")
    )
    finding = only(run(stuck(0, other), stuck(1, one)))
    assert finding.title == (
        "For 40 s the ranks have waited for each other in different places: rank 0 in `all_reduce`"
        " at train.py:61 in average_gradients and rank 1 in `all_reduce` at train.py:61 in tell_of_overflow."
    )
    alike = only(run(stuck(0, one), stuck(1, one)))
    assert (
        alike.title
        == "Both ranks have made no progress in `all_reduce` at train.py:61 in tell_of_overflow for 40 s."
    )
    assert "NCCL_DEBUG=INFO" in alike.advice
    assert "all_reduce a flag" not in alike.advice, "nothing was decided there"
    assert "all_reduce a flag" in finding.advice
    assert not any("Where the ranks are" in one.cause for one in (alike, finding)), "the title says it"


def test_a_send_that_meets_no_receiver() -> None:
    finding = only(run(stuck(0, stacks.main_in("send")), stuck(1, BARRIER)))
    assert (
        "rank 0 in `send` at train.py:61 in train_epoch and rank 1 in `barrier` at train.py:61"
        in finding.title
    )


def hangs(window: RunWindow) -> list[Finding]:
    """Return the hangs, also those that a crash explains."""
    return hang.detect(RunEvidence(window))


def only(window: RunWindow) -> Finding:
    (finding,) = hangs(window)
    return finding


def test_unequal_batches_name_both_sides() -> None:
    finding = only(run(left(0, batches=12), stuck(1, BACKWARD, batch=12, planned=14)))
    assert (finding.scenario, finding.rank, finding.severity) == ("S44", 1, "critical")
    assert finding.title == (
        "Rank 1 has 14 batches in epoch 0, rank 0 only 12: rank 1 waits for rank 0 in `backward`"
        " at train.py:61 in train_epoch."
    )
    assert "rank 0 ended epoch 0 after 12 batches and is now in `barrier`" in finding.cause
    assert [stack.rank for stack in finding.stacks] == [1, 0]


def test_unequal_batches_among_many_ranks_name_the_odd_one() -> None:
    others = [stuck(number, BACKWARD, batch=12, planned=14, world=4) for number in (0, 1, 3)]
    finding = only(run(*others[:2], left(2, batches=12), others[2]))
    assert (finding.scenario, finding.rank) == ("S44", 2)
    assert "ranks 0, 1 and 3 wait for rank 2" in finding.title


def test_unequal_batches_even_when_buffers_are_synced_first() -> None:
    """With BatchNorm the rank with more batches hangs in the forward pass of its first extra batch."""
    finding = only(run(left(0, batches=12), stuck(1, BUFFERS, batch=12, planned=14)))
    assert finding.scenario == "S44"


def test_unequal_batches_when_the_rank_that_left_is_in_validation() -> None:
    validating = left(0, BUFFERS, batches=12)
    validating.loaders.append(loader(loader=1, role="eval"))
    validating.now_ns -= 40 * S
    for _ in range(5):
        validating.step(0.001, 0.05, loader=1)
    validating.open("step", 40.0, loader=1, batch=5)
    assert only(run(validating, stuck(1, BACKWARD, batch=12, planned=14))).scenario == "S44"


def test_a_rank_that_finished_long_ago() -> None:
    ended = left(0, "", batches=24)
    ended.state = "finished"
    finding = only(run(ended, stuck(1, BACKWARD, batch=0, epoch=1, batches=26)))
    assert finding.scenario == "S44"
    assert "rank 0 ended epoch 0 after 24 batches and has exited." in finding.cause


def test_a_rank_that_decided_to_stop_alone() -> None:
    """By its own loss, after an epoch of as many batches; the way to its report is no part of the loop."""
    stopped = left(1, stacks.main_in(user="publish"), batches=24)
    stopped.calls = [Call(file="/home/me/project/train.py", function="fit", line=30, loop=(20, 40))]
    others = [stuck(number, BACKWARD, batch=0, epoch=1, batches=25, world=3) for number in (0, 2)]
    finding = only(run(others[0], stopped.half_a_minute(), others[1]))
    assert (finding.scenario, finding.rank) == ("S45", 1)
    assert finding.title == (
        "Rank 1 left the loop after epoch 0 and is at train.py:61 in publish; ranks 0 and 2 wait for rank 1"
        " in epoch 1, in `backward` at train.py:61 in train_epoch."
    )
    assert "early stopping" in finding.cause
    assert "all_reduce the loss" in finding.advice


def test_a_rank_that_decided_to_stop_alone_and_is_gone() -> None:
    ended = left(1, "", batches=24)
    ended.state = "finished"
    finding = only(run(stuck(0, BACKWARD, batch=0, epoch=1, batches=25), ended))
    assert finding.scenario == "S45"
    assert finding.title.startswith(
        "Rank 1 left the loop after epoch 0 and has exited; rank 0 waits for rank 1 in"
    )


def test_validation_through_the_wrapped_model() -> None:
    finding = only(run(stuck(0, BACKWARD, epoch=1, batch=0), stuck(1, BUFFERS, epoch=1, batch=0)))
    assert finding.scenario == "S46"
    assert "rank 1 in `buffer sync` at train.py:61" in finding.title
    assert "forward_sync_buffers=False" in finding.advice


def test_rank_0_validates_alone_while_the_other_is_at_a_barrier() -> None:
    ranks = [left(0, BUFFERS, batches=30), left(1, BARRIER, batches=30)]
    assert not hangs(run(*ranks))  # perhaps they were only passing
    assert only(run(*(each.half_a_minute() for each in ranks))).scenario == "S46"


@pytest.mark.parametrize(("cpu", "switches_per_s"), [(0.2, 0.0), (0.02, 9.0)])
def test_an_evaluation_of_ones_own_is_no_desync(cpu: float, switches_per_s: float) -> None:
    """Outside the loops that are watched a loop of collectives may go on; a stack shows one moment of it."""
    ranks = [left(0, stacks.main_in("all_gather", "wrapper"), batches=30), left(1, BARRIER, batches=30)]
    assert not hangs(run(*(each.half_a_minute(cpu=cpu, switches_per_s=switches_per_s) for each in ranks)))


@pytest.mark.parametrize(
    ("text", "scenario", "words"),
    [
        (stacks.main_in(user="report"), "S53", "Rank 1 has been stuck at train.py:61 in report"),
        (stacks.SAVE, "S52", "Rank 1 has been stuck at train.py:61 in save"),
        (BARRIER, "S45", "Rank 1 left the loop after epoch 0 and is in `barrier`"),
    ],
)
@pytest.mark.parametrize("learned", [False, True])
def test_a_rank_that_is_stuck_between_two_epochs(text: str, scenario: str, words: str, learned: bool) -> None:
    """The other has begun the next epoch, which does not mean that it has more batches."""
    away = left(1, text, batches=30, age=10.0)
    away.calls = [Call(file="/home/me/project/train.py", function="<module>", line=90, loop=(80, 99))]
    if learned:  # else its own limit has not passed, and it is only known to be outside
        away.add("epoch_begins", loader=0, epoch=0, request_ns=T0, iter_ns=0, first_wait_ns=0)
        away.add("epoch_begins", loader=0, epoch=0, request_ns=T0 + 2 * S, iter_ns=0, first_wait_ns=0)
        end: dict[str, float] = {
            "rank": 1,
            "loader": 0,
            "epoch": 0,
            "request_ns": T0 + S,
            "teardown_ns": 0,
            "batches": 1,
        }
        away.rows["epoch_ends"].insert(0, end)
    others = stuck(0, BACKWARD, batch=0, epoch=1, age=10.0, batches=31)
    finding = only(run(away.half_a_minute(), others.half_a_minute()))
    assert (finding.scenario, finding.severity) == (scenario, "critical")
    assert words in finding.title
    assert finding.rank == 1
    assert "Join" not in finding.advice
    assert ("rank 1 in `barrier` at train.py:61 in " in finding.cause) == (scenario == "S45")


@pytest.mark.parametrize(("others", "at"), [(BACKWARD, "step"), (BARRIER, "outside")])
@pytest.mark.parametrize("phase", ["outside", "step"])
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    ("state", "wchan", "words"),
    [
        ("D", "folio_wait_bit_common", "storage that does not answer (folio_wait_bit_common)"),
        ("T", "", "stopped by a signal"),
    ],
)
def test_a_rank_that_gives_no_stack(
    others: str, at: str, phase: str, many: bool, state: str, wchan: str, words: str
) -> None:
    """Its storage does not answer, or somebody stopped it. The others wait; their batches are not blamed."""
    positions = []
    for number in (0, 1, 2) if many else (0, 1):
        if number == 0 and at == "step":
            positions.append(stuck(0, others, batch=0, epoch=1, batches=31, age=70.0))
        elif number == 0:
            positions.append(left(0, others, batches=30, age=70.0))
        else:
            away = left(number, "", batches=30, age=70.0)
            if phase == "step":
                away.open("step", 0.0, batch=1, epoch=1)
                away.now_ns -= 70 * S
                away.open("step", 70.0, batch=1, epoch=1)
            assert away.span is not None
            away.span = msgspec.structs.replace(away.span, os_state=state, wchan=wchan)
            positions.append(away)
    for position in positions:
        position.half_a_minute()
        for row in position.rows["processes"]:
            row["state"] = ord("S" if position.rank == 0 else state)
    finding = only(run(*positions))
    assert (finding.scenario, finding.rank) == ("S53" if phase == "outside" else "S47", 1)
    assert words in finding.title
    assert finding.severity == "critical"


def test_nobody_is_blamed_before_the_stacks_come() -> None:
    away = left(1, batches=30)
    away.stacks.clear()
    assert not hangs(run(away, stuck(0, BACKWARD, batch=0, epoch=1, batches=31, age=32.0)))


def test_different_collectives() -> None:
    gather = stacks.main_in("all_gather", "wrapper")
    finding = only(run(stuck(0, gather), stuck(1, BARRIER)))
    assert finding.scenario == "S45"
    assert (
        "rank 0 in `all_gather` at train.py:61 in train_epoch and rank 1 in `barrier` at train.py:61"
        in finding.title
    )


def test_a_partner_that_crashed() -> None:
    dead = rank(0)
    dead.state = "crashed"
    finding = only(run(dead, stuck(1, BACKWARD)))
    assert finding.title.startswith("Rank 0 crashed; rank 1 waits for rank 0 in `backward`")


def test_a_partner_that_the_launcher_stopped_is_not_blamed() -> None:
    terminated, ended = rank(0, 3), rank(1, 3)
    terminated.state = ended.state = "crashed"
    terminated.exit, ended.exit = "exit code 143", "exit code 1"
    finding = only(run(terminated, ended, stuck(2, BACKWARD, world=3)))
    assert finding.title.startswith("Rank 1 crashed (exit code 1); rank 2 waits for rank 1 in")


def test_a_partner_that_used_other_layers_is_told_how_to_let_it() -> None:
    dead = rank(0)
    dead.state = "crashed"
    dead.exit = "uncaught RuntimeError: Expected to have finished reduction in the prior iteration"
    finding = only(run(dead, stuck(1, BACKWARD)))
    assert "find_unused_parameters=True" in finding.advice
    assert "rank 1 in `backward` at train.py:61 in train_epoch" in finding.cause


def test_both_lines_are_told_and_the_advice_is_that_of_the_place() -> None:
    """One rank saves in the loop over epochs and is in a barrier; the other has begun the next epoch."""
    away = left(0, stacks.main_in("barrier", user="save_checkpoint"), batches=30)
    away.calls = [Call(file="/home/me/project/train.py", function="<module>", line=90, loop=(80, 99))]
    finding = only(run(away, stuck(1, BACKWARD, batch=0, epoch=1, batches=31)))
    assert "wait" in finding.title
    assert "`backward` at train.py:61 in train_epoch" in finding.title
    assert "in `barrier` at train.py:61 in save_checkpoint" in finding.title
    assert "while it saved a checkpoint" in finding.cause
    assert "all_reduce the loss" not in finding.advice


def test_a_rank_that_hangs_in_its_loader_has_the_lines_of_the_others() -> None:
    waits = rank(0)
    waits.open("wait", 400.0, batch=30, awaited_worker=1).worker(
        1, "fetch", 400.0, sample_age=400.0, sample_index=7
    )
    finding = only(run(waits, stuck(1, BACKWARD, age=400.0, batch=30)))
    assert finding.rank == 0
    assert "rank 1 in `backward` at train.py:61 in train_epoch" in finding.cause


def test_a_rank_without_a_stack_is_named() -> None:
    away = stuck(1, BACKWARD, age=60.0)
    away.stacks.clear()
    finding = only(run(stuck(0, BARRIER, age=60.0), away))
    assert "No stack of rank 1 could be taken, so its line of code is not known." in finding.cause


def test_a_rank_that_is_busy_with_something_else() -> None:
    finding = only(run(stuck(0, stacks.main_in(user="preprocess"), age=60.0), stuck(1, BARRIER)))
    assert (finding.scenario, finding.rank) == ("S47", 0)
    assert "train.py:61 in preprocess" in finding.title
    assert finding.advice.startswith("Prepare the data in a separate job before training")


def test_a_rank_that_polls_is_told_to_bound_that() -> None:
    odd = stuck(0, stacks.main_in(user="wait_for_file"), age=60.0)
    for second in range(40):
        at_ns = odd.now_ns + int((60 - second) * 1e9)
        odd.process(worker=-1, pid=100, cpu=0.01, voluntary_switches=100 - 3.0 * second, t_ns=at_ns)
    odd.rows["processes"].reverse()
    finding = only(run(odd, stuck(1, BARRIER)))
    assert (finding.scenario, finding.rank) == ("S47", 0)
    assert finding.advice.startswith("Give the wait of this rank a timeout that raises an error")
    assert "Rank 0 hardly uses any CPU: it sleeps or polls." in finding.cause


def test_many_ranks_are_grouped_by_their_stacks_and_the_outlier_comes_first() -> None:
    others = [stuck(number, BARRIER, world=256, batches=3) for number in range(256) if number != 77]
    finding = only(run(*others, stuck(77, stacks.main_in(user="preprocess"), world=256, batches=3, age=60.0)))
    assert finding.rank == 77
    stands = [(item.label, item.value) for item in finding.evidence if "stand" in item.label]
    assert stands == [
        ("rank 77 stands in", "train.py:61 in preprocess"),
        ("ranks 0, 1, 2 and 252 more stand in", "barrier (train.py:61 in train_epoch)"),
    ]
    assert [stack.rank for stack in finding.stacks] == [77, 0]


@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_nccl_without_a_flight_recorder_is_advised_to_have_one(backend: str) -> None:
    ranks = [stuck(0, stacks.main_in("all_gather", "wrapper")), stuck(1, BARRIER)]
    for builder in ranks:
        builder.backend = backend
    assert ("TORCH_FR_DUMP_TEMP_FILE" in only(run(*ranks)).advice) == (backend == "nccl")


def test_a_rank_that_hangs_in_its_loader_is_advised_to_have_one_too() -> None:
    late = rank(0)
    late.open("wait", 400.0, batch=30, awaited_worker=1).worker(
        1, "fetch", 400.0, sample_age=400.0, sample_index=7
    )
    others = stuck(1, BACKWARD, age=400.0)
    others.backend = "nccl"
    finding = only(run(late, others))
    assert finding.rank == 0
    assert finding.advice.count("TORCH_FR_DUMP_TEMP_FILE") == 1
    assert texts_of(finding, "zh").advice.count("TORCH_FR_DUMP_TEMP_FILE") == 1


def test_what_the_ranks_flight_recorders_say_follows_the_cause() -> None:
    window = run(stuck(0, BACKWARD, age=60.0), stuck(1, BARRIER, age=60.0))
    ranks = {}
    for number, position in window.ranks.items():
        entry = FlightEntry(number=7, what=f"nccl:{number}", state="started", at="train.py:12 in reduce")
        group = FlightGroup(group="default_pg", written_ns=1, entries=[entry])
        process = msgspec.structs.replace(position.process, flight=[group])
        ranks[number] = dataclasses.replace(position, process=process)
    finding = only(dataclasses.replace(window, ranks=ranks))
    assert finding.rule == "collective-by-one-rank"
    assert finding.cause.endswith(
        "PyTorch's flight recorder: rank 1 called collective 7 of default_pg, nccl:1 (train.py:12 in reduce);"
        " rank 0 called nccl:0 (train.py:12 in reduce) instead."
    )
    assert (
        "在 rank 1 上是 train.py:12（reduce）处的 nccl:1；rank 0 执行的却是" in texts_of(finding, "zh").cause
    )


def test_a_rank_that_waits_for_its_worker_stands_where_the_worker_does() -> None:
    late = rank(0)
    late.open("wait", 40.0, awaited_worker=1).worker(1, "fetch", 40.0, sample_age=39.0, sample_index=7)
    late.stack(-1, 100, stacks.MAIN_WAITS).stack(1, late.workers[0].pid, stacks.WORKER)
    first, second = places(RunEvidence(run(late, stuck(1, BACKWARD)), Limits()))
    assert (first.ranks, say(first.text)) == ([0], "next(train_loader) (worker at data.py:42 in load_image)")
    assert first.dump is not None
    assert (first.dump.worker, say(second.text)) == (1, "backward (train.py:61 in train_epoch)")


def test_a_rank_that_waits_makes_the_others_stacks_worth_taking() -> None:
    waits = rank(0).open("backward", 20.0)
    assert not somebody_waits(run(waits, rank(1)))
    assert somebody_waits(run(waits.stack(-1, 100, BACKWARD, "open span"), rank(1)))
    assert not somebody_waits(run(waits)), "of a single rank nobody else can tell"
    away = rank(0).open("outside", 40.0).stack(-1, 100, BARRIER, "open span")
    assert not somebody_waits(run(away, rank(1)))


def test_ranks_without_a_stack_are_known() -> None:
    moving = rank(0, 3)
    moving.now_ns += 40 * S
    moving.open("step", 0.5)
    silent = rank(1, 3)
    silent.open("outside", 40.0)
    assert without_stack(run(moving, silent, stuck(2, BARRIER, world=3))) == [1]


@pytest.mark.parametrize(
    ("backend", "timeout_s", "said"),
    [
        (
            "gloo",
            420.0,
            "In 6 min 20 s PyTorch aborts the collective, after its timeout of 7 min 0 s, and the job dies.",
        ),
        (
            "nccl",
            None,
            "In 9 min 20 s PyTorch aborts the collective, after its timeout of 10 min 0 s, PyTorch's default,"
            " and",
        ),
        ("gloo", 35.0, "PyTorch should have aborted the collective by now"),
        (None, None, ""),
    ],
)
def test_the_time_that_is_left(backend: str | None, timeout_s: float | None, said: str) -> None:
    ranks = [stuck(0, stacks.main_in(user="preprocess"), age=60.0), stuck(1, BARRIER)]
    for builder in ranks:
        builder.backend, builder.timeout_s = backend, timeout_s
    finding = only(run(*ranks))
    assert said in finding.cause
    left = [item.value for item in finding.evidence if item.label == "until the collective is given up"]
    assert bool(left) == bool(said)


@pytest.mark.parametrize("power", [71.0, 390.0])
def test_full_utilization_at_low_power_is_a_spinning_kernel(power: float) -> None:
    busy = stuck(1, BACKWARD, batch=12, planned=14)
    for second in range(30):
        busy.add(
            "gpus",
            gpu=1,
            t_ns=busy.now_ns - second * S,
            utilization_ratio=1.0,
            power_w=power,
            power_limit_w=400.0,
        )
    finding = only(run(left(0), busy))
    assert ("blocked in a collective" in finding.cause) == (power < 100)


def busy_cpu(builder: RankBuilder, ratio: float = 1.0) -> RankBuilder:
    for second in range(40):
        builder.process(worker=-1, pid=100 + builder.rank, cpu=ratio, t_ns=builder.now_ns - second * S)
    return builder


def test_waiting_for_a_gpu_burns_cpu_and_is_still_a_hang() -> None:
    """A spinning kernel, and a training thread that spins with it in cudaStreamSynchronize."""
    ranks = []
    for number, text in enumerate([BACKWARD, stacks.main_in("barrier")]):
        builder = busy_cpu(stuck(number, text))
        builder.cuda = True
        for second in range(40):
            builder.add(
                "gpus",
                gpu=number,
                t_ns=builder.now_ns - second * S,
                utilization_ratio=1.0,
                power_w=80.0,
                power_limit_w=400.0,
            )
        ranks.append(builder)
    finding = only(run(*ranks))
    assert finding.scenario == "S45"
    assert "blocked in a collective" in finding.cause


def test_a_long_backward_on_the_cpu_is_work() -> None:
    assert not hangs(run(*(busy_cpu(stuck(number, BACKWARD)) for number in range(2))))


def test_a_pause_of_all_ranks_is_a_remark() -> None:
    """N09: nobody is in a collective, nobody computes."""
    pause = stacks.main_in(user="wait_for_quota")
    (finding,) = hangs(run(stuck(0, pause), stuck(1, pause)))
    assert (finding.scenario, finding.severity) == ("S26", "info")


def test_without_stacks_there_is_some_patience() -> None:
    def silent(age: float) -> RunWindow:
        return run(stuck(0, "", age=age), stuck(1, "", age=age))

    assert not hangs(silent(32.0))
    assert only(silent(45.0)).confidence <= 0.5


class TestSomebodyStillWorks:
    """While one rank moves, the others wait for it: slow, not hung."""

    def test_a_rank_that_still_steps(self) -> None:
        moving = rank(0)
        moving.now_ns += 40 * S
        moving.open("step", 0.5)
        assert not hangs(run(moving, stuck(1, BACKWARD)))

    def test_a_rank_that_validates_through_a_watched_loader(self) -> None:
        """N01."""
        validating = rank(0)
        validating.loaders.append(loader(loader=1, role="eval"))
        validating.now_ns += 40 * S
        validating.open("step", 2.0, loader=1)
        assert not hangs(run(validating, stuck(1, BARRIER)))

    def test_a_rank_that_saves_a_checkpoint(self) -> None:
        """N02."""
        saving = rank(0)
        saving.phase_names = ["checkpoint"]
        saving.open("user", 45.0, phase_name="checkpoint")
        assert not hangs(run(saving, stuck(1, BARRIER)))

    def test_a_rank_that_computes_outside_the_loop(self) -> None:
        working = left(0, stacks.main_in(user="evaluate"), batches=30)
        for second in range(10):
            working.process(worker=-1, pid=100, cpu=1.0, t_ns=working.now_ns - second * S)
        assert not hangs(run(working, stuck(1, BARRIER, batch=0, epoch=1)))

    def test_a_rank_under_a_debugger(self) -> None:
        traced = rank(0)
        traced.open("step", 300.0, traced=True)
        assert not hangs(run(traced, stuck(1, BACKWARD, age=300.0)))

    def test_ranks_that_are_all_done(self) -> None:
        assert not hangs(run(left(0, ""), left(1, "")))


INIT = stacks.main_in("_create_c10d_store", "init_process_group")


def begun(number: int, text: str) -> RankBuilder:
    """A rank before its first batch."""
    builder = RankBuilder(number, 2)
    return builder.open("outside", 70.0, batch=None).stack(-1, 100 + number, text)


class TestBeforeTheFirstLoopAndAfterTheLast:
    """No alert for a rank that is at work, or for one that waits for a person."""

    @pytest.mark.parametrize("number", [0, 1])
    def test_at_start_up(self, number: int) -> None:
        ranks = [begun(number, stacks.main_in(user="download")), begun(1 - number, INIT)]
        finding = only(run(*(each.half_a_minute() for each in ranks)))
        assert (finding.scenario, finding.severity, finding.rank) == ("S53", "critical", number)
        assert finding.title.startswith(f"Rank {number} has been stuck at train.py:61 in download for")
        assert finding.title.endswith(
            f"; rank {1 - number} waits for rank {number} in `init_process_group` at train.py:61 in"
            " train_epoch."
        )

    def test_at_the_end(self) -> None:
        ranks = [left(0, stacks.SOCKET, batches=30, age=70.0), left(1, BARRIER, batches=30, age=70.0)]
        finding = only(run(*(each.half_a_minute() for each in ranks)))
        assert (finding.scenario, finding.severity, finding.rank) == ("S53", "critical", 0)

    @pytest.mark.parametrize("work", [{"cpu": 0.5}, {"switches_per_s": 20.0}])
    def test_a_rank_that_works_is_waited_for(self, work: dict[str, float]) -> None:
        busy = left(0, stacks.main_in(user="evaluate"), batches=30, age=70.0).half_a_minute(**work)
        waits = left(1, BARRIER, batches=30, age=70.0).half_a_minute()
        assert not [finding for finding in hangs(run(busy, waits)) if finding.severity != "info"]

    def test_nobody_waits_for_the_other(self) -> None:
        ranks = [left(number, stacks.main_in(user="serve"), batches=30, age=70.0) for number in (0, 1)]
        found = hangs(run(*(each.half_a_minute() for each in ranks)))
        assert not [finding for finding in found if finding.severity != "info"]
