"""The table of causes: it is whole, and says what the documentation says."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from loaderwatch.core.facts import AT_WORK
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.input_bound import rules
from loaderwatch.detect.input_bound.batch_causes import sampler
from loaderwatch.detect.input_bound.rules import PRECEDENCE, RULES, Cause, explain
from loaderwatch.detect.input_bound.symptoms import Bottleneck, Symptoms
from tests.unit.detect import stacks
from tests.unit.detect.build import RankBuilder, S, loader, run
from tests.unit.detect.workers import only


def scenario(cause: Cause) -> str:
    """What a function explains, by the table."""
    return next(rule.aliases for rule in RULES if rule.find is cause)


def test_each_bottleneck_has_its_rules() -> None:
    assert set(PRECEDENCE) == set(Bottleneck)
    assert all(len(set(row)) == len(row) for row in PRECEDENCE.values())


def test_the_last_rule_of_a_row_always_fits_and_no_other_does() -> None:
    for row in PRECEDENCE.values():
        always = [rule.__annotations__["return"] == "Explanation" for rule in row]
        assert always == [False] * (len(row) - 1) + [True]


def test_every_rule_is_in_the_table() -> None:
    folder = Path(inspect.getfile(rules)).parent
    written = {
        f"{path.stem}.{node.name}"
        for path in folder.glob("*_causes.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
        and [ast.unparse(arg.annotation) for arg in node.args.args if arg.annotation] == ["Symptoms"]
        and ast.unparse(node.returns or ast.Constant(None)).startswith("Explanation")
    }
    assert written == {
        f"{rule.__module__.rpartition('.')[2]}.{getattr(rule, '__name__', '')}"
        for row in PRECEDENCE.values()
        for rule in row
    }


def test_each_cause_has_rows() -> None:
    assert {cause for row in PRECEDENCE.values() for cause in row} == {rule.find for rule in RULES}


def test_the_documentation_gives_the_same_order(repo_root: Path) -> None:
    text = (repo_root / "docs" / "detectors.md").read_text()
    told = re.search(r"For workers that cannot keep up these are (.*?); what is left", text, re.DOTALL)
    assert told is not None
    order = [scenario(rule) for rule in PRECEDENCE[Bottleneck.WORKERS]]
    assert re.findall(r"S\d\d", told[1]) == order[: order.index("S07")]


@pytest.mark.parametrize(
    ("workers", "ready", "wait_cpu", "bottleneck", "told"),
    [
        (None, 0, 0.0, Bottleneck.OTHER_ITERABLE, "S01"),
        (0, 0, 0.0, Bottleneck.TRAINING_THREAD, "S01"),
        (2, 3, 0.5, Bottleneck.UNPACKING, "S13"),
        (2, 3, 0.0, Bottleneck.HANDOVER, "S14"),
        (2, 0, 0.0, Bottleneck.WORKERS, "S02"),
    ],
)
def test_three_numbers_say_what_the_loop_waits_for(
    workers: int | None, ready: int, wait_cpu: float, bottleneck: Bottleneck, told: str
) -> None:
    rank = RankBuilder(loaders=[loader(num_workers=workers)])
    fetch_s = 0.02 if ready else 0.2
    for number in range(60):
        if workers:
            rank.fetch(number % workers, fetch_s, cpu=0.5)
        rank.step(0.08, 0.02, ready=ready, wait_cpu_ns=int(wait_cpu * 0.08e9))
    watched = RunEvidence(run(rank, cpus=64)).ranks[0]
    symptoms = Symptoms(watched, watched.pace(watched.process.loaders[0]))
    assert symptoms.bottleneck is bottleneck
    assert explain(symptoms).scenario == told


READS = """Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/opt/venv/lib/python3.11/site-packages/PIL/Image.py", line 900 in load
  File "/home/me/project/data.py", line 42 in load_image
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py", line 54 in fetch
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 789 in _next_data
  File "/home/me/project/train.py", line 40 in main
  File "/home/me/project/train.py", line 99 in <module>
"""
LIBRARY_READS = READS.replace('  File "/home/me/project/data.py", line 42 in load_image\n', "")


def short_of_workers(workers: int) -> RankBuilder:
    """A loop that waits for those who read, which compute."""
    builder = RankBuilder(loaders=[loader(num_workers=workers)])
    for number in range(100):
        builder.fetch(number % workers if workers else -1, 0.2, cpu=0.95).step(0.2 / max(1, workers), 0.02)
    for worker in range(workers):
        builder.process(worker=worker, pid=200 + worker, cpu=0.95)
    return builder


def test_the_line_at_which_workers_read() -> None:
    builder = short_of_workers(2)
    for worker, text in ((0, stacks.WORKER), (1, stacks.WORKER.replace("line 42", "line 50"))):
        builder.stack(worker, 200 + worker, text, why=AT_WORK)
    builder.stack(1, 201, stacks.WORKER, why=AT_WORK)
    finding = only(run(builder))
    assert finding.scenario == "S02"
    assert finding.cause.endswith(" Worker 1 was running data.py:42 in load_image (see its stack).")
    assert [dump.text for dump in finding.stacks] == [stacks.WORKER]


def test_workers_of_another_loader_say_nothing_of_this_one() -> None:
    builder = short_of_workers(2).stack(0, 999, stacks.WORKER, why=AT_WORK)
    assert not only(run(builder)).stacks


def test_a_sampler_that_computes_before_each_batch() -> None:
    builder = RankBuilder(loaders=[loader(num_workers=0)])
    for _ in range(100):
        builder.fetch(-1, 0.001, cpu=0.9).step(0.07, 0.02)
    finding = only(run(builder.stack(-1, 100, READS.replace("load_image", "hardest"), why=AT_WORK)))
    assert finding.scenario == "S15"
    assert "choosing the samples of a batch takes 69 ms, reading them 1.0 ms" in finding.title
    assert "data.py:42 in hardest" in finding.cause
    assert "num_workers" not in finding.advice
    assert finding.gain_ceiling_ratio == pytest.approx(0.77, abs=0.01)


def test_a_wait_that_goes_on_is_no_samplers() -> None:
    """What is read in it is not known yet."""
    builder = RankBuilder(loaders=[loader(num_workers=0)])
    for _ in range(400):
        builder.fetch(-1, 0.006, cpu=0.5).step(0.0061, 0.04)
    builder.now_ns += 2 * S
    builder.open("wait", 2.0, batch=400)
    rank = RunEvidence(run(builder)).ranks[0]
    (pace,) = rank.recent_paces
    assert pace.open_wait
    assert sampler(Symptoms(rank, pace)) is None


def test_the_line_at_which_the_training_thread_reads() -> None:
    finding = only(run(short_of_workers(0).stack(-1, 100, READS, why=AT_WORK)))
    assert finding.scenario == "S01"
    assert "The training thread was running data.py:42 in load_image (see its stack)." in finding.cause


@pytest.mark.parametrize(
    "text", [LIBRARY_READS, stacks.main_in(user="train_epoch")], ids=["a library", "in a step"]
)
def test_a_stack_that_shows_no_line_of_the_users_that_reads(text: str) -> None:
    finding = only(run(short_of_workers(0).stack(-1, 100, text, why=AT_WORK)))
    assert "was running" not in finding.cause
