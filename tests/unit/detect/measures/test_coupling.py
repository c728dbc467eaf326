"""Who waits for whom, from durations alone."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from loaderwatch.core.facts import SCRIPT_WORK
from loaderwatch.core.message import Text
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.measures.coupling import Coupling
from loaderwatch.detect.window import RunWindow
from loaderwatch.texts import say
from tests.unit.detect import stacks
from tests.unit.detect.build import T0, RankBuilder, S, run

STEP = 0.03


def found(window: RunWindow) -> Coupling:
    result = RunEvidence(window).coupling
    assert result is not None
    return result


def ranks(
    world: int, *, data: dict[int, float] | None = None, work: dict[int, float] | None = None, steps: int = 60
) -> list[RankBuilder]:
    """Ranks in lockstep: a rank that waits for data or works longer makes the others wait in backward."""
    built = [RankBuilder(number, world) for number in range(world)]
    data, work = data or {}, work or {}
    longest = max(data.get(number, 0.0) + work.get(number, STEP) for number in range(world))
    for builder in built:
        # Hosts disagree about the time; nothing may depend on it.
        builder.now_ns = T0 + builder.rank * 5 * S
        wait, own = data.get(builder.rank, 0.0), work.get(builder.rank, STEP)
        for _ in range(steps):
            sync = longest - wait - own + 0.001
            builder.step(
                wait,
                own + sync,
                forward_ns=int(own / 3 * S),
                backward_ns=int((own / 3 + sync) * S),
                optimizer_ns=int(own / 6 * S),
                collective_ns=int(sync * S),
            )
    return built


def without_hooks(built: list[RankBuilder]) -> list[RankBuilder]:
    for builder in built:
        for row in builder.rows["steps"]:
            for name in ("collective_ns", "forward_ns", "backward_ns", "optimizer_ns"):
                row.pop(name)
    return built


@pytest.mark.parametrize("hooks", [True, False])
def test_one_rank_waits_for_data_and_the_others_for_it(hooks: bool) -> None:
    built = ranks(4, data={2: 0.08})
    result = found(run(*(built if hooks else without_hooks(built))))
    assert (result.state, result.waited_for, result.waiting) == ("waiting", (2,), (0, 1, 3))
    assert (result.source, result.cause) == ("measured" if hooks else "durations", "data")
    assert result.where == ("backward" if hooks else None)
    assert result.wait_s == pytest.approx(0.08, rel=0.05)
    late, early = result.share(2), result.share(0)
    assert late.others_s < 1e-6
    assert early.data_s == 0
    assert late.data_s == pytest.approx(early.others_s, rel=0.05)
    assert late.caused_s == pytest.approx(0.08, rel=0.05)
    for share in result.shares:
        assert share.data_s + share.own_s + share.others_s == pytest.approx(share.iteration_s)


def test_a_rank_that_computes_longer_is_seen_where_collectives_are_measured() -> None:
    result = found(run(*ranks(3, work={0: 0.09})))
    assert (result.state, result.waited_for, result.cause) == ("waiting", (0,), "work")
    assert result.wait_s == pytest.approx(0.06, rel=0.05)
    assert found(run(*without_hooks(ranks(3, work={0: 0.09})))).state == "even"  # there it cannot be seen


@pytest.mark.parametrize(
    ("work_s", "steps", "severity", "says"),
    [
        (
            0.04,
            300,
            "info",
            "Rank 0 needs 41 ms per iteration, other ranks 31 ms: ranks 1 and 2 wait 10 ms for rank 0.",
        ),
        (
            0.09,
            150,
            "warning",
            "Rank 0 needs 91 ms per iteration, other ranks 31 ms: ranks 1 and 2 wait 60 ms for rank 0.",
        ),
        (
            0.09,
            100,  # too short to wake somebody: 9 s
            "info",
            "Rank 0 needs 91 ms per iteration, other ranks 31 ms: ranks 1 and 2 wait 60 ms for rank 0.",
        ),
    ],
)
def test_a_rank_that_computes_longer_is_told_by_what_it_costs_and_no_loader(
    work_s: float, steps: int, severity: str, says: str
) -> None:
    (finding,) = detect(RunEvidence(run(*ranks(3, work={0: work_s}, steps=steps))))
    assert (finding.code, finding.scenario, finding.rank) == ("slow-step", "S48", 0)
    assert (finding.severity, finding.title) == (severity, says)


def test_a_slow_rank_alerts_however_quick_the_iterations_are() -> None:
    """Of 10 ms each the last 400 are compared, which are 4 s."""
    (finding,) = detect(RunEvidence(run(*ranks(3, work={0: 0.01, 1: 0.003, 2: 0.003}, steps=2000))))
    assert (finding.scenario, finding.rank, finding.severity) == ("S48", 0, "warning")


def test_what_the_slow_rank_does_is_told_with_its_line() -> None:
    built = ranks(3, work={0: 0.09})
    built[0].stack(-1, 100, stacks.main_in(user="write_histograms"), why=SCRIPT_WORK)
    (finding,) = detect(RunEvidence(run(*built)))
    assert finding.cause.endswith(" at train.py:61 in write_histograms (see its stack).")
    assert len(finding.stacks) == 1


@pytest.mark.parametrize(("own", "larger"), [(3_000_000, True), (1_100_000, False), (0, False)])
def test_larger_batches_of_the_slow_rank_are_told(own: int, larger: bool) -> None:
    built = ranks(3, work={0: 0.09})
    for builder in built:
        began_ns = int(builder.rows["steps"][-50]["request_ns"])
        builder.add(
            "fetches", loader=0, worker=0, request_ns=began_ns, fetch_ns=S // 1000, samples=32,
            bytes=own if builder.rank == 0 else 1_000_000 if own else 0,
        )  # fmt: skip
    (finding,) = (one for one in detect(RunEvidence(run(*built))) if one.scenario == "S48")
    says = " The batches of rank 0 are 3.0 times as large as those of the other ranks, on average."
    assert (says in finding.cause) == larger
    assert ("Distribute the long samples over all ranks" in finding.advice) == larger


@pytest.mark.parametrize(("left_s", "state"), [(0.5, "even"), (0.05, "waiting")])
def test_a_wait_in_which_the_gpu_goes_on_costs_nothing(left_s: float, state: str) -> None:
    """The GPU takes 0.09 s for a step; with less than that queued it may have run dry in the collective."""
    built = ranks(3, work={0: 0.09})
    for builder in built:
        builder.rows["gpu_waits"] = [
            {
                "rank": row["rank"],
                "loader": row["loader"],
                "request_ns": row["request_ns"],
                "starved_ns": 0,
                "slack_ns": int(left_s * S),
                "gpu_step_ns": int(0.09 * S),
            }
            for row in builder.rows["steps"]
        ]
    assert found(run(*built)).state == state


def test_two_of_eight_are_named() -> None:
    result = found(run(*ranks(8, data={3: 0.06, 5: 0.06})))
    assert (result.state, result.waited_for) == ("waiting", (3, 5))


def test_ranks_that_are_late_in_turn() -> None:
    built = [RankBuilder(number, 2) for number in range(2)]
    for number in range(60):
        for builder in built:
            late = number % 2 == builder.rank
            builder.step(0.05 if late else 0.0, 0.03 if late else 0.08)
    result = found(run(*built))
    assert (result.state, result.waited_for) == ("turns", ())
    assert result.wait_s == pytest.approx(0.025, rel=0.05)


def test_iterations_are_told_by_their_batch_wherever_they_lie() -> None:
    expected = found(run(*ranks(4, data={2: 0.08})))
    built = ranks(4, data={2: 0.08})
    built[1].rows["steps"] = built[1].rows["steps"][25:]  # lost
    twice = built[3].rows["steps"][-1]
    built[3].rows["steps"].append({**twice, "request_ns": twice["request_ns"] + S})
    result = found(run(*built))
    assert (result.state, result.waited_for, result.iterations) == ("waiting", (2,), 35)
    assert result.share(2).data_s == pytest.approx(expected.share(2).data_s)


def test_nobody_waits() -> None:
    assert found(run(*ranks(4))).state == "even"


def test_ranks_that_do_not_go_in_step() -> None:
    built = [RankBuilder(number, 2) for number in range(2)]
    for _ in range(60):
        built[0].step(0.001, 0.03)
        built[1].step(0.06, 0.03)
    result = found(run(*built))
    assert (result.state, result.waited_for) == ("apart", ())
    assert result.reason is not None
    assert "rank 0 takes 31 ms per iteration, rank 1 90 ms" in say(result.reason)


def test_equal_by_chance_but_not_mirrored() -> None:
    """Two ranks, equally long, but the one that waits for data does not make the other's step longer."""
    built = [RankBuilder(number, 2) for number in range(2)]
    for _ in range(60):
        built[0].step(0.001, 0.09)
        built[1].step(0.012, 0.089)
    assert found(run(*built)).state == "apart"


def test_too_little_is_unknown() -> None:
    assert RunEvidence(run(RankBuilder(0).step(0.1, 0.1))).coupling is None
    reason = found(run(*ranks(2, steps=3))).reason
    assert reason is not None
    assert say(reason) == "Both ranks did fewer than 8 steps lately"
    built = ranks(2)
    for row in built[1].rows["steps"]:
        row["epoch"] = 7
    assert found(run(*built)).reason == Text("coupling-of-other-batches")


def test_many_ranks() -> None:
    """Four times as many ranks cost about four times as much, not sixteen times."""

    def cost_s(window: RunWindow) -> float:
        costs = []
        for _ in range(3):
            began = time.thread_time()
            result = found(window)
            costs.append(time.thread_time() - began)
        assert result.waited_for == (7,)
        return min(costs)

    few, many = (run(*ranks(count, data={7: 0.05}, steps=40)) for count in (64, 256))
    assert cost_s(many) < 8 * cost_s(few)


def test_a_rank_alone_is_compared_with_nobody() -> None:
    window = run(*(rank for rank in ranks(2, data={1: 0.05})))
    alone = replace(window, ranks={0: window.ranks[0]})
    assert found(alone).state == "unknown"


def test_where_ranks_wait_is_told_by_the_gpus_clock_where_it_times_phases() -> None:
    """The loop launches backward and waits in the optimizer; the GPU waits for the others in backward."""
    built = ranks(2, work={1: 0.09})
    for builder in built:
        for number, row in enumerate(builder.rows["steps"]):
            waits_s = 0.0 if builder.rank else 0.06
            row |= {
                "forward_ns": S // 1000,
                "backward_ns": S // 1000,
                "optimizer_ns": int((0.001 + waits_s) * S),
            }
            if number % 8:
                continue
            spent = {"gpu_forward_ns": 0.01, "gpu_backward_ns": 0.02 + waits_s, "gpu_optimizer_ns": 0.005}
            builder.rows["gpu_waits"].append(
                {
                    "rank": builder.rank,
                    "loader": 0,
                    "request_ns": row["request_ns"],
                    "gpu_step_ns": int(0.09 * S),
                }
                | {name: int(seconds * S) for name, seconds in ({"gpu_h2d_ns": 0.0} | spent).items()}
            )
    assert found(run(*built)).where == "backward"
    for builder in built:
        builder.rows["gpu_waits"].clear()
    assert found(run(*built)).where == "optimizer"
