"""Epoch boundaries: every cause, and boundaries that cost nothing worth a word."""

from __future__ import annotations

import msgspec
import pytest

from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.records import EndedBy, IterKind
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.window import RunWindow
from tests.unit.detect.build import RankBuilder, S, loader, run


def epochs(
    *,
    of: LoaderInfo | None = None,
    count: int = 5,
    batches: int = 40,
    step: float = 0.05,
    iter_s: float = 0.03,
    first_s: float = 0.05,
    first_fetch_s: float = 0.05,
    sampler_s: float = 0.0,
    teardown_s: float = 0.01,
    kind: IterKind = IterKind.STARTED,
    ended_by: EndedBy = EndedBy.EXHAUSTED,
    drained: int = 0,
) -> RankBuilder:
    """Epochs of the same shape."""
    builder = RankBuilder(loaders=[of or loader()])
    for epoch in range(count):
        builder.epoch[0], builder.batch[0] = epoch, 0
        builder.add(
            "epoch_begins",
            loader=0,
            epoch=epoch,
            iter_ns=int(iter_s * S),
            iter_cpu_ns=0,
            sampler_ns=int(sampler_s * S),
            first_wait_ns=int(first_s * S),
            iter_kind=int(kind),
            workers=2,
            drained=drained if epoch else 0,
            gap_ns=0,
        )
        builder.now_ns += int(iter_s * S)
        for number in range(batches):
            wait = first_s if number == 0 else 0.001
            builder.step(wait, step, ready=0 if number == 0 else 4)
            took = first_fetch_s if number == 0 else 0.04
            builder.fetch(number % 2, took, cpu=0.5, request_ns=builder.now_ns - int((step + took) * S))
        builder.add(
            "epoch_ends",
            loader=0,
            epoch=epoch,
            teardown_ns=int(teardown_s * S),
            batches=batches,
            ended_by=int(ended_by),
        )
        builder.now_ns += int(teardown_s * S)
    return builder


def anew(builder: RankBuilder) -> RankBuilder:
    """The same epochs, each of a loader that is built for it: "train_loader", "train_loader-2", …"""
    (first,) = builder.loaders
    for table in ("epoch_begins", "epoch_ends", "steps"):
        for row in builder.rows[table]:
            row["loader"], row["epoch"] = row["epoch"], 0
    for row in builder.rows["fetches"]:
        row["loader"] = max(
            begin["loader"]
            for begin in builder.rows["epoch_begins"]
            if begin["request_ns"] <= row["request_ns"]
        )
    numbers = range(len(builder.rows["epoch_begins"]))
    builder.loaders = [
        msgspec.structs.replace(
            first, loader=number, name=first.name if not number else f"{first.name}-{number + 1}"
        )
        for number in numbers
    ]
    return builder


def only(window: RunWindow) -> Finding:
    (finding,) = [finding for finding in detect(RunEvidence(window)) if finding.severity != "info"]
    assert finding.code == "epoch-boundary"
    if finding.scenario != "S32":  # there the parts that are seen are not all
        (share,) = [e.value for e in finding.evidence if e.label == "share of the time"]
        assert isinstance(share, float)
        assert finding.gain_ceiling_ratio is None or finding.gain_ceiling_ratio <= share + 1e-9
    return finding


def test_workers_started_for_every_epoch() -> None:
    finding = only(run(epochs(of=loader(start_method="spawn"), iter_s=0.4, first_s=1.2, teardown_s=0.2)))
    assert finding.scenario == "S28"
    assert "by spawn" in finding.title
    assert "persistent_workers=True" in finding.advice
    assert finding.lost_s == pytest.approx(4 * 1.8, rel=0.05)
    # The share of an epoch (40 steps of 51 ms), even after few epochs; the first batch must still be read.
    epoch_s = 0.4 + 1.2 + 39 * 0.051 + 0.05 + 0.2
    assert finding.gain_ceiling_ratio == pytest.approx((1.8 - 0.04) / epoch_s, abs=0.02)


def test_a_new_loader_each_epoch_is_told_apart() -> None:
    finding = only(run(epochs(of=loader(persistent_workers=True), iter_s=0.4, first_s=1.2)))
    assert "each epoch makes a new DataLoader" in finding.advice


def test_a_loader_built_in_the_epoch_loop_is_one_loader() -> None:
    shape = {"of": loader(persistent_workers=False), "iter_s": 0.4, "first_s": 1.2, "teardown_s": 0.2}
    kept = only(run(epochs(**shape)))  # type: ignore[arg-type]
    finding = only(run(anew(epochs(**shape))))  # type: ignore[arg-type]
    assert (finding.scenario, finding.key, finding.severity) == ("S28", "epoch-boundary:0", kept.severity)
    assert finding.lost_s == pytest.approx(kept.lost_s)
    assert finding.gain_ceiling_ratio == pytest.approx(kept.gain_ceiling_ratio, abs=0.01)
    assert "a new DataLoader is made for every epoch and starts 2 workers" in finding.title
    assert "Make the DataLoader once" in finding.advice
    assert "persistent_workers=True" in finding.advice
    assert "new DataLoader" not in kept.title


def test_a_loader_built_for_every_step_is_one_loader() -> None:
    rebuilt = epochs(count=60, batches=1, iter_s=0.03, first_s=0.02, teardown_s=0.02, ended_by=EndedBy.BREAK)
    assert only(run(anew(rebuilt))).scenario == "S32"


@pytest.mark.parametrize("quiet", [{}, {"batches": 400, "iter_s": 0.5, "first_s": 0.8}, {"count": 2}])
def test_a_new_loader_that_costs_little_needs_no_word(quiet: dict[str, float]) -> None:
    assert not detect(RunEvidence(run(anew(epochs(**quiet)))))  # type: ignore[arg-type]


def test_loaders_of_other_data_follow_each_other_without_a_word() -> None:
    """Each has its own first epoch, which is unavoidable."""
    builder = anew(epochs(iter_s=0.4, first_s=1.2))
    builder.loaders = [
        msgspec.structs.replace(one, dataset_length=1000 + one.loader) for one in builder.loaders
    ]
    assert not detect(RunEvidence(run(builder)))


def test_reset_drain() -> None:
    finding = only(
        run(
            epochs(
                kind=IterKind.RESET, ended_by=EndedBy.BREAK, iter_s=1.6, first_s=0.4, drained=8, teardown_s=0
            )
        )
    )
    assert finding.scenario == "S30"
    assert "8 batches" in finding.cause


def test_teardown_with_its_fingerprint() -> None:
    finding = only(run(epochs(teardown_s=10.03, ended_by=EndedBy.BREAK)))
    assert finding.scenario == "S31"
    assert "10 s means that 2 waits ended at this limit" in finding.cause


def test_short_epochs_lose_as_much_to_a_short_boundary() -> None:
    """A boundary of 0.33 s is a fifth of such an epoch and is reported. Shorter than 0.2 s it is not."""
    short = {"batches": 25, "first_s": 0.005, "first_fetch_s": 0.005, "teardown_s": 0.005}
    finding = only(run(epochs(iter_s=0.32, sampler_s=0.31, **short)))  # type: ignore[arg-type]
    assert finding.scenario == "S15"
    assert not detect(
        RunEvidence(run(epochs(iter_s=0.17, sampler_s=0.16, **short)))  # type: ignore[arg-type]
    )


def test_sampler() -> None:
    finding = only(run(epochs(of=loader(dataset_length=20_000_000), iter_s=2.8, sampler_s=2.7)))
    assert finding.scenario == "S15"
    assert "20,000,000 samples" in finding.title


def test_without_workers_the_sampler_draws_with_the_first_batch() -> None:
    """A generator draws at the first index. The loop leaves each epoch after 15,360 samples."""
    alone = loader(num_workers=0, dataset_length=2_000_000, batch_size=256)
    first = {
        "batches": 60,
        "iter_s": 0.0,
        "first_s": 1.1,
        "kind": IterKind.IN_PROCESS,
        "ended_by": EndedBy.BREAK,
    }
    finding = only(run(epochs(of=alone, first_fetch_s=0.01, **first)))  # type: ignore[arg-type]
    assert finding.scenario == "S15"
    assert "needs 1.1 s to draw the order of 2,000,000 samples" in finding.title
    assert finding.advice.startswith("Draw only as many as an epoch takes, 15,360 here")
    finding = only(run(epochs(of=alone, first_fetch_s=1.1, **first)))  # type: ignore[arg-type]
    assert finding.scenario == "S33"
    assert finding.cause.startswith("Without workers the loop reads the first batch of every epoch itself")


@pytest.mark.parametrize("kind", [IterKind.RESET, IterKind.STARTED])
def test_shuffle_buffer(kind: IterKind) -> None:
    stream = loader(iterable_dataset=True, batches=None)
    finding = only(run(epochs(of=stream, kind=kind, first_s=3.0, first_fetch_s=2.9)))
    assert finding.scenario == "S33"


def test_an_iterator_for_every_step() -> None:
    rebuilt = epochs(count=60, batches=1, iter_s=0.03, first_s=0.02, teardown_s=0.02, ended_by=EndedBy.BREAK)
    finding = only(run(rebuilt))
    assert finding.scenario == "S32"
    assert "outside the loop" in finding.advice


def test_an_iterator_for_every_step_is_never_called_an_epoch() -> None:
    few = epochs(count=4, batches=1, iter_s=1.2, first_s=0.5, ended_by=EndedBy.BREAK)
    assert not detect(RunEvidence(run(few)))


def test_small_tasks_that_are_read_to_their_end_are_meant() -> None:
    """Meta-learning re-iterates loaders of one or two batches on purpose."""
    tasks = epochs(of=loader(batches=2), count=60, batches=2, iter_s=0.02, first_s=0.02)
    assert not [finding for finding in detect(RunEvidence(run(tasks))) if finding.scenario == "S32"]


def test_one_long_boundary_is_enough() -> None:
    finding = only(run(epochs(count=2, batches=300, step=0.1, iter_s=12.0, first_s=1.0)))
    assert finding.scenario == "S28"


@pytest.mark.parametrize(("took", "quiet"), [(40.0, True), (20.0, False)])
def test_one_that_hung_was_told_as_a_hang(took: float, quiet: bool) -> None:
    builder = epochs(count=4)
    begins = builder.rows["epoch_begins"]
    begins[2]["first_wait_ns"] = int(took * S)
    assert bool(detect(RunEvidence(run(builder)))) is not quiet


@pytest.mark.parametrize(
    "quiet",
    [
        {},  # fork starts workers in 30 ms
        {"batches": 400, "iter_s": 0.5, "first_s": 0.8},  # dear, but rare: 3 % of the time
        {"count": 1, "iter_s": 5.0, "first_s": 2.0},  # the first epoch is unavoidable
        {"count": 2, "iter_s": 1.0, "first_s": 1.0},  # once may be chance
        {"kind": IterKind.RESET, "iter_s": 0.001, "first_s": 0.05},
    ],
)
def test_boundaries_that_need_no_word(quiet: dict[str, float]) -> None:
    assert not detect(RunEvidence(run(epochs(**quiet))))  # type: ignore[arg-type]


def test_a_loader_that_is_no_longer_used() -> None:
    builder = epochs(iter_s=0.4, first_s=1.2)
    builder.open("outside", 60.0)
    assert not detect(RunEvidence(run(builder)))


def test_validation_loaders_are_left_alone() -> None:
    found = detect(RunEvidence(run(epochs(of=loader(role="eval"), iter_s=0.4, first_s=1.2))))
    assert [finding.code for finding in found] == [
        "slow-evaluation"
    ]  # which is judged by its share of the run


def by_device(builder: RankBuilder, first_starved_s: float) -> RankBuilder:
    """The same epochs with a device that lacks the first batch of each for so long, and no other."""
    for row in list(builder.rows["steps"]):
        starved_s = first_starved_s if row["batch"] == 0 else 0.0
        request_ns, step_ns = int(row["request_ns"]), int(row["step_ns"])
        builder.add(
            "gpu_waits", loader=0, request_ns=request_ns, starved_ns=int(starved_s * S), gpu_step_ns=step_ns
        )
    return builder


def test_a_boundary_in_which_the_gpu_works_on_costs_nothing() -> None:
    def dear() -> RankBuilder:
        return epochs(iter_s=0.4, first_s=1.2, teardown_s=0.2)

    assert only(run(dear())).lost_s == pytest.approx(4 * 1.8, abs=0.1)
    assert only(run(by_device(dear(), 1.2))).lost_s == pytest.approx(4 * 1.8, abs=0.1)
    assert only(run(by_device(dear(), 0.9))).lost_s == pytest.approx(4 * 0.9, abs=0.1)
    assert [one for one in detect(RunEvidence(run(by_device(dear(), 0.0)))) if one.severity != "info"] == []
