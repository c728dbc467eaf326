"""What the audit says, word for word: for the cases of this folder's tests, and for some more cases.

``python -m tests.unit.advise.test_words`` writes ``words.txt``. Its diff in git shows each change for review.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, Final, get_args
from unittest import mock

import numpy as np
import pytest

from loaderwatch.advise.audit import audit
from loaderwatch.advise.comparison.compare import MEASURES, comparison
from loaderwatch.advise.option_gains import Estimate
from loaderwatch.core.answers import Advice, Comparison, Judgement, Text
from loaderwatch.core.facts import LoaderProbe
from loaderwatch.texts import LANGUAGES, catalogue
from tests.unit.advise import test_audit, test_option_gains
from tests.unit.advise.comparison import test_compare, test_followed_advice
from tests.unit.advise.comparison.test_compare import observed, process, run
from tests.unit.advise.test_audit import facts, one, report

GOLDEN: Final = Path(__file__).with_name("words.txt")


def read(**fields: Any) -> LoaderProbe:
    """Eight samples that were read, and what they showed."""
    return LoaderProbe(loader=0, **({"samples": 8, "batch": 64, "wall_s": 0.1, "cpu_s": 0.1} | fields))


def more_cases() -> Iterator[list[Advice]]:
    """The audits of cases that no other test has."""
    for stream in (False, True):
        info = {"iterable_dataset": stream}
        yield audit(report(read(unfinished_s=61.0), info=info))
        yield audit(report(read(died="SIGSEGV"), info=info))
        yield audit(report(read(error="OSError: no such file"), info=info))
    yield audit(report(read(tensors=2, objects=30_000)))
    yield audit(report(read(tensors=600, objects=30_000, arrays=3, bytes=2_000_000)))
    yield audit(report(read(arrays=3, bytes=2_000_000)))
    for size, method in ((1_000, "spawn"), (60_000_000, "forkserver")):
        probe = LoaderProbe(loader=0, pickle_bytes=size, pickle_s=0.7)
        yield audit(report(probe, info={"start_method": method, "num_workers": 1}))
    yield audit(
        report(LoaderProbe(loader=0, pickle_bytes=1_000, pickle_s=0.001), info={"start_method": "spawn"})
    )

    restarts = {"starts": 3, "start_s": 2.0, "rebuilt": 0}
    for changed in ({}, {"epoch_s": 12.0}, {"rebuilt": 3}, {"rebuilt": 3, "epoch_s": 1.0}):
        yield audit(facts(one(num_workers=1, persistent_workers=False, measured=restarts | changed)))
    for method, workers in (("spawn", 1), ("forkserver", 3), ("fork", 1), ("fork", 3)):
        yield audit(facts(one(num_workers=workers, persistent_workers=False, start_method=method)))

    for cpus, ratio in ((1.0, 0.8), (3.5, math.nan), (5.0, math.nan), (64.0, 0.5)):
        yield audit(
            facts(one(num_workers=96 if cpus == 64 else 6, measured={"fetch_cpu_ratio": ratio}), cpus=cpus)
        )
    pair = one(num_workers=8, measured={"fetch_cpu_ratio": 1.0}), one(loader=1, name="aux", num_workers=2)
    yield audit(facts(*pair, cpus=4))
    yield audit(facts(one(0, num_workers=9), one(1, num_workers=9), cpus=4, world_size=2))
    for fields in ({"step_s": 0.1}, {}, {"step_s": 0.1, "fetch_cpu_ratio": 0.01}):
        for splits in (None, False, True):
            serial = one(
                num_workers=0,
                iterable_dataset=True,
                splits_by_worker=splits,
                measured={"fetch_s": 0.4} | fields,
            )
            yield audit(facts(serial, cpus=2))
            yield audit(facts(serial, host={"usable_cpus": math.nan}))
    named = one(
        num_workers=0,
        iterable_dataset=True,
        splits_by_worker=False,
        dataset_class="Rows",
        measured={"fetch_s": 0.4},
    )
    yield audit(facts(named))

    busy = {"worker_threads": 4.0, "worker_cpu_ratio": 2.5}
    for cpus, limits in (
        (1.0, dict[str, str]()),
        (2.0, {"OMP_NUM_THREADS": "8", "MKL_NUM_THREADS": "4", "X": "1"}),
    ):
        yield audit(facts(one(num_workers=1, measured=busy), cpus=cpus, thread_limits=limits))

    jitter = {"fetch_s": 0.05, "fetch_tail_s": 1.5, "step_s": 0.1}
    for batch in (math.nan, 3e3, 3e6, 3e8, 3e9):
        yield audit(
            facts(one(num_workers=1, measured=jitter | {"batch_bytes": batch}), host={"shm_bytes": math.nan})
        )
    for batch, free in ((2e3, 5e3), (2e9, 9e9), (4e9, 18e9)):
        sized = {"batch_bytes": batch}
        loaders = one(batches=3, measured=sized), one(loader=1, name="val", num_workers=1, measured=sized)
        yield audit(facts(*loaders, host={"shm_bytes": free, "shm_used_bytes": free / 4}))

    refusals = (
        "prefetch_factor option could only be specified in multiprocessing",
        "multiprocessing_context can only be used",
        "x",
    )
    for refusal in refusals:
        yield audit(report(refusal=f"ValueError: {refusal}", refused_line="train.py:3"))
    yield audit(facts(one(prefetch_factor=0)))
    yield audit(facts(one(timeout_s=2.5, measured={"first_wait_s": 200.0})))
    yield audit(facts(one(class_name="StatefulDataLoader", snapshot_every_n_steps=1)))

    yield audit(facts(one(same_epoch_passes=5)))
    for sampler in (None, "Balanced"):
        yield audit(report(epoch_never_set=[0], info={"sampler_class": sampler}))
    for shards, workers, ranks in ((1, 2, 1), (3, 4, 2), (5, 1, 2), (6, 4, 1), (6, 8, 1), (6, 4, 2)):
        readers = [
            one(rank, num_workers=workers, iterable_dataset=True, shards=shards) for rank in range(ranks)
        ]
        yield audit(facts(*readers, world_size=ranks))
    for workers in (2, 3, 12):
        yield audit(facts(one(num_workers=workers, iterable_dataset=True, splits_by_worker=False)))
    for ranks in (2, 6):
        both = [
            each
            for rank in range(ranks)
            for each in (one(rank), one(rank, loader=1, name="val", role="eval"))
        ]
        yield audit(facts(*both, world_size=ranks, synced_buffers=1))


def cases_of(test: Callable[..., None]) -> Iterator[dict[str, Any]]:
    """The arguments of each case of a test."""
    marks = [mark.args for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    for values in product(*(cases for _, cases in marks)):
        arguments: dict[str, Any] = {}
        for (names, _), value in zip(marks, values, strict=True):
            several = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
            arguments |= dict(zip(several, value if len(several) > 1 else (value,), strict=True))
        yield arguments


def results(module: ModuleType, function: str) -> list[Any]:
    """What a function returned to each test of a module."""
    original, kept = getattr(module, function), []

    def kept_too(*arguments: Any) -> Any:
        kept.append(original(*arguments))
        return kept[-1]

    with mock.patch.object(module, function, kept_too):
        for name, test in vars(module).items():
            if name.startswith("test_") and inspect.isfunction(test):
                for arguments in cases_of(test):
                    test(**arguments)
    return kept


def advice() -> list[Advice]:
    """Every advice of all cases."""
    return [each for found in (*results(test_audit, "audit"), *more_cases()) for each in found]


def estimates() -> list[Estimate]:
    """Every estimate of all cases."""
    return [each for found in results(test_option_gains, "estimates_of") for each in found]


def comparisons() -> Iterator[list[str]]:
    """The words of each comparison, and of the gain of a run that followed a finding."""
    for compared in [*results(test_compare, "comparison"), *more_comparisons()]:
        yield [
            compared.title,
            *(f"    note: {note}" for note in compared.notes),
            *(f"    {each.label}: {each.said}" for each in compared.measures),
        ]
    for gained in results(test_followed_advice, "followed"):
        if gained is not None:
            yield [gained.sentence]


def more_comparisons() -> Iterator[Comparison]:
    """Those that no other test has."""
    every = {name: np.full(40, 2.0) for name in MEASURES}
    yield comparison(replace(observed("a", 12.0), values=every), replace(observed("b", 12.0), values=every))
    unknown = [process(batch_size=None)]
    yield comparison(observed("a", 2e4), observed("b", 0.0123, processes=unknown))
    yield comparison(observed("a", 12.0, run=run("a", state="hung", seconds=3.6)), observed("b", 1e4))


def words() -> str:
    """Every advice and every estimate once, in the order of the cases."""
    blocks = [
        f"{each.severity} {each.check}\n    what: {each.what}\n    why: {each.why}\n"
        f"    change: {each.change}\n"
        for each in advice()
    ]
    blocks += [f"{each.change}\n    {each.rests_on}\n" for each in estimates()]
    blocks += ["\n".join(lines) + "\n" for lines in comparisons()]
    return "\n".join(dict.fromkeys(blocks))


def test_words_are_as_reviewed() -> None:
    assert words() == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_says_all_of_it(language: str) -> None:
    spoken = catalogue(language)
    assert all(
        spoken.say(each.rule, each.params, part) for each in advice() for part in ("what", "why", "change")
    )
    assert all(spoken.say(each.basis.id, each.basis.params) for each in estimates())
    compared = [*results(test_compare, "comparison"), *more_comparisons()]
    texts = [text for each in compared for text in (each.title_text, *each.note_texts)]
    texts += [Text("compared-measure", {"measure": name}) for name in MEASURES]
    texts += [Text("comparison-judged", {"judgement": judgement}) for judgement in get_args(Judgement)]
    assert all(spoken.say(text.id, text.params) for text in texts)


if __name__ == "__main__":
    GOLDEN.write_text(words(), encoding="utf-8")
