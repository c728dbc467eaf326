"""Any phase that lasts longer than usual is mentioned, except what a person does on purpose."""

from __future__ import annotations

import pytest

from loaderwatch.detect.incidents.verdict import watched
from tests.unit.detect import stacks
from tests.unit.detect.build import RankBuilder, S, loader, run


def trained(rank: int = 0, world: int = 1) -> RankBuilder:
    """A second of training and three quick evaluations, each with its start and its end."""
    loaders = [loader(), loader(loader=1, name="val_loader", role="eval")]
    built = RankBuilder(rank, world, loaders=loaders)
    for epoch in range(3):
        for number in (0, 1):
            built.epoch[number], built.batch[number] = epoch, 0
            built.add(
                "epoch_begins", loader=number, epoch=epoch, iter_ns=int(0.05 * S), first_wait_ns=int(0.05 * S)
            )
            built.now_ns += int(0.05 * S)
            for _ in range(10):
                built.step(0.002, 0.05, loader=number)
            built.add("epoch_ends", loader=number, epoch=epoch, batches=10, teardown_ns=int(0.02 * S))
            built.now_ns += int(0.1 * S)
    return built


def said(*ranks: RankBuilder) -> str | None:
    verdict = watched(run(*ranks))
    if verdict is None:
        return None
    assert verdict.severity == "info"
    return verdict.title


def test_a_wait_of_an_evaluation_names_its_loader() -> None:
    rank = trained().open("wait", 4.0, loader=1, batch=7, awaited_worker=1)
    rank.worker(1, "fetch", 4.0, loader=1, sample_index=77)
    assert said(rank) == (
        "Training has waited 4.0 s for batch 7 of val_loader; worker 1 is reading dataset[77];"
        " longer than usual, not yet an alert."
    )


@pytest.mark.parametrize(
    ("phase", "fields", "where"),
    [
        ("iter", {"loader": 1}, "in iter() of val_loader"),
        ("teardown", {"loader": 0}, "at the end of an epoch of train_loader"),
        ("forward", {"loader": 1, "batch": 3}, "busy with batch 3 of val_loader"),
        ("step", {"loader": 0, "step": 31}, "in step 31"),
        ("outside", {}, "outside its training loops"),
    ],
)
def test_every_phase_is_told_within_seconds(phase: str, fields: dict[str, int], where: str) -> None:
    stack = stacks.main_in("barrier") if phase == "outside" else stacks.main_in()
    rank = trained().open(phase, 4.0, **fields).stack(-1, 100, stack)  # type: ignore[arg-type]
    assert said(rank) == (
        f"Training has been {where} for 4.0 s, at train.py:61 in train_epoch;"
        " longer than usual, not yet an alert."
    )
    assert said(trained().open(phase, 2.5, **fields)) is None  # type: ignore[arg-type]


def test_a_step_that_calls_the_model_again_and_again_is_as_old_as_it_is() -> None:
    """Its passes begin again and again, which does not show that training makes progress."""
    rank = trained()
    began_ns = rank.now_ns
    rank.now_ns += 7 * S
    rank.stack(-1, 100, stacks.main_in())
    rank.open("forward", 0.01, loader=0, step=31, step_since_ns=began_ns)
    assert said(rank) == (
        "Training has been in step 31 for 7.0 s, at train.py:61 in train_epoch;"
        " longer than usual, not yet an alert."
    )


def test_a_phase_of_the_users_is_told_by_its_name() -> None:
    rank = trained()
    rank.phase_names = ["checkpoint"]
    rank.add("phases", name=0, duration_ns=int(1.0 * S), request_ns=rank.now_ns - 5 * S)
    rank.open("user", 4.0, phase_name="checkpoint")
    assert said(rank) == (
        "Training has been in its phase 'checkpoint' for 4.0 s; longer than usual, not yet an alert."
    )


def test_start_up_and_exit_are_told_where_ranks_meet() -> None:
    starts = RankBuilder(0, 2).open("outside", 12.0).stack(-1, 100, stacks.main_in("barrier"))
    assert str(said(starts, RankBuilder(1, 2))).startswith(
        "Rank 0 has been before its first batch for 12 s, at"
    )


def test_of_ranks_the_one_that_the_others_wait_for_is_told() -> None:
    ranks = [trained(number, 3).open("backward", 9.0, step=31) for number in range(2)]
    late = trained(2, 3).open("step", 8.0, step=31)
    assert str(said(*ranks, late)).startswith("Rank 2 has been in step 31 for 8.0 s")


@pytest.mark.parametrize(
    "rank",
    [
        trained().open("outside", 100.0),  # a notebook, a server
        trained().open("outside", 100.0).stack(-1, 100, stacks.NOTEBOOK_IDLE),
        trained().open("step", 100.0, traced=True),
        trained().open("step", 100.0).stack(-1, 100, stacks.DEBUGGER),
        trained().open("step", 100.0, wchan="n_tty_read"),
        RankBuilder().open("outside", 100.0),  # a model is loaded
        RankBuilder().open("iter", 9.0),  # the first start of workers
        trained().open("wait", 100.0, alive=False),
    ],
)
def test_what_is_done_on_purpose_or_for_the_first_time_is_not_told(rank: RankBuilder) -> None:
    assert said(rank) is None
