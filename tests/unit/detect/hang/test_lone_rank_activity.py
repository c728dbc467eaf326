"""The table of places where one rank stands alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from loaderwatch.core.facts import Call
from loaderwatch.detect.hang.lone_rank_activity import (
    BRANCH_OF_MODEL,
    EARLY_STOP,
    PATTERNS,
    Pattern,
    pattern_of,
)
from loaderwatch.detect.hang.rank_positions import places_of, positions_of, whereabouts, without_line
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.texts import LANGUAGES, catalogue, say
from tests.unit.detect import stacks
from tests.unit.detect.build import RankBuilder, run

TRAIN = "/home/me/project/train.py"
IN_LOOP = Call(file=TRAIN, function="<module>", line=90, loop=(80, 99))
LEFT_LOOP = Call(file=TRAIN, function="<module>", line=90, loop=(80, 95))


def stands(
    text: str, *, number: int = 0, phase: str = "outside", call: Call | None = None, age: float = 40.0
) -> RankBuilder:
    rank = RankBuilder(number, 2)
    for _ in range(10):
        rank.step(0.001, 0.05)
    rank.calls = [call] if call else []
    rank.open(phase, age)  # type: ignore[arg-type]
    return rank.stack(-1, 100 + number, text)


def of(rank: RankBuilder) -> Pattern | None:
    return pattern_of(positions_of(run(rank), [], Limits()))


@pytest.mark.parametrize(
    ("user", "rule"),
    [
        ("save_checkpoint", "checkpoint-by-one-rank"),
        ("write_ckpt", "checkpoint-by-one-rank"),
        ("validate", "evaluation-by-one-rank"),
        ("evaluate_epoch", "evaluation-by-one-rank"),
        ("build_index", "data-preparation-by-one-rank"),
        ("tokenize", "data-preparation-by-one-rank"),
        ("should_stop", "rank-left-the-loop"),
        ("log_metrics", "report-by-one-rank"),
        ("main", "collective-by-one-rank"),
    ],
)
def test_the_names_on_a_stack_say_what_a_rank_does(user: str, rule: str) -> None:
    found = of(stands(stacks.main_in("barrier", user=user), call=IN_LOOP))
    assert found is not None
    assert found.rule == rule


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_row_has_its_words(language: str) -> None:
    for pattern in PATTERNS:
        assert pattern.rule in catalogue(language)
        assert not pattern.works or pattern.works in catalogue(language)


def test_a_module_that_the_script_calls_counts_and_the_scripts_own_name_does_not() -> None:
    """A barrier in ``index.py``, called from ``train.py``."""
    text = stacks.main_in("barrier", user="main").replace(
        f'  File "{TRAIN}", line 61', '  File "/home/me/project/index.py", line 48'
    )
    found = of(stands(text, call=IN_LOOP))
    assert found is not None
    assert found.rule == "data-preparation-by-one-rank"
    script = stacks.main_in("barrier", user="main").replace("train.py", "validate.py")
    found = of(stands(script, phase="step"))
    assert found is not None
    assert found.rule == "collective-by-one-rank"


def test_a_rank_that_has_left_its_loop_has_stopped_whatever_it_does_since() -> None:
    text = stacks.main_in("barrier", user="report_when_all_are_done")
    found = of(stands(text, call=LEFT_LOOP))
    assert found is not None
    assert found.rule == EARLY_STOP.rule
    found = of(stands(stacks.main_in("destroy_process_group", user="main"), call=LEFT_LOOP))
    assert found is not None
    assert found.rule == "rank-destroys-its-group"


def test_what_all_ranks_do_says_nothing_of_one() -> None:
    """The loop of all ranks lies in a function that trains and evaluates."""
    one = stands(stacks.main_in("barrier", user="train_and_evaluate"), phase="step")
    other = stands(stacks.main_in("_engine_run_backward", user="train_and_evaluate"), number=1, phase="step")
    found = pattern_of(positions_of(run(one, other), [], Limits()))
    assert found is not None
    assert found.rule == "collective-by-one-rank"


@pytest.mark.parametrize("user", ["get_logits", "invalid_batch", "retrieval", "rebuild_graph"])
def test_a_part_of_a_word_is_no_word(user: str) -> None:
    found = of(stands(stacks.main_in("barrier", user=user), phase="step"))
    assert found is not None
    assert found.rule == "collective-by-one-rank"


def test_a_collective_of_the_model_is_a_branch_of_it() -> None:
    text = stacks.main_in("all_gather", "forward", "_call_impl", user="main")
    assert of(stands(text, phase="step")) is BRANCH_OF_MODEL
    backward = stacks.main_in("_engine_run_backward", "backward", user="validate_and_save")
    assert of(stands(backward, phase="step")) is None  # where all ranks come to in each step


def test_who_stands_where_is_one_sentence() -> None:
    one = stands(stacks.main_in("barrier", user="build"))
    other = stands(stacks.main_in("_engine_run_backward", user="main"), number=1, phase="step")
    positions = positions_of(run(one, other), [], Limits())
    who_stands_where = whereabouts(places_of(positions))
    assert who_stands_where is not None
    assert say(who_stands_where) == (
        "rank 0 in `barrier` at train.py:61 in build and rank 1 in `backward` at train.py:61 in main"
    )
    assert without_line(positions) is None
    other.stacks.clear()
    one.stacks.clear()
    positions = positions_of(run(one, other), [], Limits())
    missing = without_line(positions)
    assert missing is not None
    assert (
        say(replace(missing, part="cause"))
        == "No stack of rank 0 could be taken, so its line of code is not known."
    )


def test_where_many_stand_the_rest_is_a_number() -> None:
    ranks = [stands(stacks.main_in("barrier", user=f"work_{number}"), number=number) for number in range(6)]
    found = whereabouts(places_of(positions_of(run(*ranks), [], Limits())))
    assert found is not None
    assert say(found) == (
        "rank 0 in `barrier` at train.py:61 in work_0, rank 1 in `barrier` at train.py:61 in work_1,"
        " rank 2 in `barrier` at train.py:61 in work_2 and 3 more"
    )
    assert say(found, "zh") == (
        "rank 0 在 train.py:61（work_0）的 `barrier` 中；rank 1 在 train.py:61（work_1）的 `barrier` 中；"
        "rank 2 在 train.py:61（work_2）的 `barrier` 中；另有 3 处"
    )
