"""A GPU that swings while data is there, and the look-alikes of it."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from loaderwatch.core.facts import GPU_IDLE
from loaderwatch.detect import evidence
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.slow_step import sawtooth
from tests.unit.detect.build import RankBuilder, S, run
from tests.unit.detect.stacks import SAVE

TEN_HZ = 10


def swinging(
    *,
    wait: float = 0.0,
    gpu_s: float = 0.5,
    other_s: float = 0.5,
    steps: int = 60,
    utilization: float = 0.95,
    **more: Any,
) -> RankBuilder:
    """Each step keeps the GPU busy for ``gpu_s`` and then does something else, read ten times a second."""
    rank = RankBuilder()
    rank.has_model = rank.has_optimizer = True
    for _ in range(steps):
        began_ns = rank.now_ns
        rank.step(
            wait, gpu_s + other_s, forward_ns=int(gpu_s * 0.4 * S), backward_ns=int(gpu_s * 0.5 * S),
            optimizer_ns=int(gpu_s * 0.1 * S), h2d_ns=0, optimizer_steps=1,
        )  # fmt: skip
        for tenth in range(int((wait + gpu_s + other_s) * TEN_HZ)):
            at_s = tenth / TEN_HZ
            busy = wait <= at_s < wait + gpu_s
            row = {"gpu": 0, "other_pids": 0, "throttle_reasons": 0} | more
            rank.rows["gpus"].append(
                {
                    "rank": 0,
                    "t_ns": began_ns + int(at_s * S),
                    "utilization_ratio": utilization if busy else 0.0,
                    **row,
                }
            )
    return rank


def found(rank: RankBuilder) -> list[Finding]:
    return [finding for finding in detect(RunEvidence(run(rank))) if finding.code == "gpu-sawtooth"]


def test_a_swing_without_a_loaders_wait_is_told_with_its_period_and_share() -> None:
    (finding,) = found(swinging())
    assert (finding.scenario, finding.severity) == ("S26", "critical")
    assert finding.title == (
        "The GPU idles within steps 52 % of the time (measured over 30 s), although batches are ready:"
        " it waits for the loop's own work (swings between 0 % and 95 % every 1.0 s)."
    )
    assert "other work of the training loop" in finding.cause
    assert "500 ms of the 1.0 s" in finding.cause
    assert finding.gain_ceiling_ratio == pytest.approx(0.525, abs=0.01)  # 95 % busy is not quite busy


@pytest.mark.parametrize(
    "rank",
    [
        swinging(wait=0.5, other_s=0.0),  # the loader's: told as such
        swinging(other_s=0.0),  # busy all the time
        swinging(utilization=0.4),  # never busy
        swinging(other_pids=1),  # another process computes there (N21)
        swinging(throttle_reasons=0x40),  # it is hot
        swinging(steps=4),
        swinging(gpu_s=0.9, other_s=0.0),
    ],
    ids=["data", "busy", "light", "shared", "throttled", "short", "steady"],
)
def test_what_is_no_sawtooth_of_the_loop(rank: RankBuilder) -> None:
    assert found(rank) == []


def two_causes(steps: int = 48) -> RankBuilder:
    """In each step the optimizer computes 0.2 s on the CPU, and every twelfth step saves for 2.4 s."""
    rank = RankBuilder()
    rank.has_model = rank.has_optimizer = True
    for number in range(1, steps + 1):
        began_ns = rank.now_ns
        saves_s = 2.4 if number % 12 == 0 else 0.0
        rank.step(
            0.0, 0.5 + saves_s,
            forward_ns=int(0.1 * S), backward_ns=int(0.2 * S), optimizer_ns=int(0.2 * S), h2d_ns=0,
            optimizer_steps=1,
        )  # fmt: skip
        for tenth in range(round((0.5 + saves_s) * TEN_HZ)):
            row = {"rank": 0, "gpu": 0, "other_pids": 0, "throttle_reasons": 0}
            used = 1.0 if tenth < 3 else 0.0
            rank.rows["gpus"].append(
                row | {"t_ns": began_ns + tenth * S // TEN_HZ, "utilization_ratio": used}
            )
    return rank


def test_each_cause_is_a_finding_with_its_own_share_and_severity() -> None:
    rank = two_causes()
    now_ns = rank.now_ns
    rank.now_ns -= S  # within the newest checkpoint
    rank.stack(-1, 100, SAVE, GPU_IDLE)
    rank.stack(-1, 100, SAVE.replace("torch/serialization.py", "torch/optim/sgd.py"), "long step")
    rank.now_ns = now_ns
    by_key = {finding.key: finding for finding in found(rank)}
    assert by_key.keys() == {"gpu-sawtooth:optimizer", "gpu-sawtooth:pauses"}
    optimizer, checkpoint = by_key["gpu-sawtooth:optimizer"], by_key["gpu-sawtooth:pauses"]
    assert "a checkpoint was written" in checkpoint.cause
    assert "train.py:61 in save" in checkpoint.cause
    assert "train.py" not in optimizer.cause
    assert optimizer.gain_ceiling_ratio == pytest.approx(2.4 / 8.4, abs=0.05)
    assert checkpoint.gain_ceiling_ratio == pytest.approx(2.4 / 8.4, abs=0.05)
    assert {optimizer.severity, checkpoint.severity} <= {"warning", "critical"}
    for one in (optimizer, checkpoint):
        assert one.severity == ("critical" if (one.gain_ceiling_ratio or 0) >= 0.3 else "warning")


def test_it_began_when_the_swing_began() -> None:
    rank = swinging(other_s=0.0, gpu_s=0.9, steps=30)
    calm_until_ns = rank.now_ns
    later = swinging(steps=70)
    shift = calm_until_ns - int(later.rows["steps"][0]["request_ns"])
    for table, rows in later.rows.items():
        times = "t_ns" if table == "gpus" else "request_ns"
        rank.rows[table] += [row | {times: int(row[times]) + shift} for row in rows]
    for number, row in enumerate(rank.rows["steps"]):
        row["batch"] = row["step"] = number
    rank.now_ns = later.now_ns + shift
    (finding,) = found(rank)
    assert abs(finding.began_ns - calm_until_ns) <= 6 * S  # 70 s ago, and not 30
    assert finding.lost_s == pytest.approx(0.525 * 70, rel=0.1)


def test_a_line_from_before_the_swing_is_not_told() -> None:
    rank = swinging(other_s=0.0, gpu_s=0.9, steps=30)
    rank.stack(-1, 100, SAVE, GPU_IDLE)
    until_ns = rank.now_ns
    later = swinging(steps=70)
    shift = until_ns - int(later.rows["steps"][0]["request_ns"]) + 10 * S
    for table, rows in later.rows.items():
        times = "t_ns" if table == "gpus" else "request_ns"
        rank.rows[table] += [row | {times: int(row[times]) + shift} for row in rows]
    for number, row in enumerate(rank.rows["steps"]):
        row["batch"] = row["step"] = number
    rank.now_ns = later.now_ns + shift
    (finding,) = found(rank)
    assert "train.py" not in finding.cause
    assert "checkpoint" not in finding.cause


def test_a_process_that_is_through_swings_no_more() -> None:
    rank = swinging()
    rank.state = "finished"
    assert found(rank) == []


def test_readings_that_come_late_are_the_loaders() -> None:
    """A reading is a mean of up to one second, so a wait of 2 s still shows after its batch has arrived."""
    rank = RankBuilder()
    for _ in range(14):
        began_ns = rank.now_ns
        rank.step(2.0, 2.0, optimizer_steps=1)
        for tenth in range(40):
            busy = tenth / TEN_HZ >= 2.0 + 0.9
            used = 0.95 if busy or tenth < 9 else 0.0
            row = {"rank": 0, "gpu": 0, "other_pids": 0, "throttle_reasons": 0, "utilization_ratio": used}
            rank.rows["gpus"].append(row | {"t_ns": began_ns + tenth * S // TEN_HZ})
    assert found(rank) == []


def test_ranks_that_wait_for_each_other_idle_for_that() -> None:
    quick, slow = swinging(), RankBuilder(1, 2)
    quick.world_size = 2
    for _ in range(60):
        slow.step(0.4, 0.6)
    assert sawtooth.detect(RunEvidence(run(quick, slow), Limits())) == []


def test_ranks_alike_take_turns_in_being_the_worst_and_are_one_alert() -> None:
    def worst(idlest: int) -> Finding:
        ranks = []
        for number in (0, 1):
            rank = swinging(other_s=0.6 if number == idlest else 0.5)
            rank.rank, rank.world_size = number, 2
            for row in (row for rows in rank.rows.values() for row in rows):
                row["rank"] = number
            ranks.append(rank)
        (one,) = sawtooth.detect(RunEvidence(run(*ranks), Limits()))
        return one

    first, second = worst(0), worst(1)
    assert (first.rank, second.rank) == (0, 1)
    assert first.key == second.key


def test_gpus_that_starve_all_together_are_not_looked_at_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closer look takes a third of a millisecond for each of a thousand ranks, once a second."""

    def looked_at(_: object) -> NoReturn:
        raise AssertionError("a closer look")

    starving, swings = swinging(wait=0.5, other_s=0.0), swinging()
    monkeypatch.setattr(evidence, "paces_of", looked_at)
    assert sawtooth.detect(RunEvidence(run(starving), Limits())) == []
    with pytest.raises(AssertionError, match="a closer look"):
        sawtooth.detect(RunEvidence(run(swings), Limits()))
