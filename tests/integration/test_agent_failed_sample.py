"""A training dies of an error in its dataset: sample, worker and line are named; the error is unchanged."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loaderwatch.core.facts import FailedSample
from tests.conftest import RingFolder

pytestmark = pytest.mark.usefixtures("data_dir", "no_streamer")

SCRIPT = """\
import os, sys
import numpy
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset
import loaderwatch

KIND = os.environ["KIND"]

class Awkward(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)

def fail():
    class Local(Exception):
        pass
    if KIND == "local":
        raise Local("not at the top of a module")
    if KIND == "interrupt":
        raise KeyboardInterrupt
    if KIND == "awkward":
        raise Awkward(1, 2)
    raise OSError("picture is\\ntruncated")

class Pictures(Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        if index == 13 or index == "thirteen":
            fail()
        return torch.rand(3 if KIND == "collate" and index == 14 else 2)

class Batched(Pictures):
    def __getitems__(self, indices):
        return [self[index] for index in indices]

class Stream(IterableDataset):
    def __iter__(self):
        for number in range(40):
            yield Pictures()[number]

def torn(samples):
    if len(samples) == 4 and torch.stack(samples).sum() > -1 and KIND == "own collate":
        fail()
    return torch.stack(samples)

class Indices(list):
    pass

def batch_of(indices):
    kind = os.environ["BATCH"]
    if kind == "generator":
        return (index for index in indices)
    if kind == "keys":
        return dict.fromkeys(indices)
    if kind == "numbers":
        return [torch.tensor(index) for index in indices]
    if kind == "records":
        return [{"index": index} for index in indices]
    kinds = {"subclass": Indices, "tuple": tuple, "array": numpy.array, "tensor": torch.tensor, "list": list}
    make = kinds.get(kind, lambda each: range(each[0], each[-1] + 1))
    return make(indices)

class Batches:
    def __len__(self):
        return 10
    def __iter__(self):
        return (batch_of(list(range(at, at + 4))) for at in range(0, 40, 4))

class Numbered(Pictures):
    def __getitem__(self, index):
        return super().__getitem__(int(index["index"] if isinstance(index, dict) else index))

def fails_whole(samples):
    if any(len(sample) == 1 for sample in samples):
        fail()
    return torch.stack(samples)

class Short(Pictures):
    def __getitem__(self, index):
        return torch.rand(1 if index == 13 else 2)

class ShortBatched(Short):
    def __getitems__(self, indices):
        return [self[index] for index in indices]

class ShortStream(IterableDataset):
    def __iter__(self):
        return (Short()[number] for number in range(14))

def loader():
    workers = int(os.environ["WORKERS"])
    more = {"num_workers": workers, "persistent_workers": workers > 0 and KIND == "second epoch"}
    if KIND == "keys":
        return DataLoader(Pictures(), sampler=["one", "thirteen", "two"], batch_size=2, **more)
    if KIND == "batches":
        return DataLoader(Numbered(), batch_sampler=Batches(), **more)
    if KIND == "collated batches":
        return DataLoader(Short(), batch_sampler=Batches(), collate_fn=fails_whole, **more)
    if KIND == "collated at once":
        return DataLoader(ShortBatched(), batch_size=4, collate_fn=fails_whole, **more)
    if KIND == "collated rest":
        return DataLoader(ShortStream(), batch_size=4, collate_fn=fails_whole, **more)
    if KIND == "numpy":
        return DataLoader(Pictures(), sampler=list(numpy.arange(40)), batch_size=4, **more)
    if KIND == "one":
        return DataLoader(Pictures(), batch_size=None, **more)
    if KIND in ("stream", "stream of single ones"):
        return DataLoader(Stream(), batch_size=4 if KIND == "stream" else None, **more)
    if KIND == "batched":
        return DataLoader(Batched(), batch_size=4, **more)
    if KIND == "collate":
        return DataLoader(Pictures(), sampler=[0, 1, 14, 2], batch_size=4, **more)
    if KIND == "own collate":
        return DataLoader(Pictures(), sampler=[4, 5, 6, 7], batch_size=4, collate_fn=torn, **more)
    return DataLoader(Pictures(), batch_size=4, **more)

def again(loaded):
    for batch in loaded:
        pass

def train(model):
    raise ValueError("loss became NaN")

def main():
    if KIND.startswith("handler"):
        workers = int(os.environ["WORKERS"])
        loaded = loaderwatch.attach(DataLoader(Pictures(), batch_size=4, num_workers=workers))
        try:
            again(loaded)
        except OSError as error:
            if KIND == "handler calls":
                train(None)
            if KIND == "handler is wrong":
                {}["no such key"]
            if KIND == "handler replaces":
                raise ValueError("loss became NaN")
            if KIND == "handler goes on":
                for _ in zip(range(2), loaded):
                    pass
                raise ValueError("loss became NaN") from error
    loaded = loader()
    if os.environ["WATCH"] == "1":
        loaded = loaderwatch.attach(loaded)
    for epoch in range(2):
        if KIND == "second epoch" and not epoch:
            for _, _ in zip(range(3), loaded):
                pass
            continue
        try:
            for batch in loaded:
                pass
        except OSError as error:
            if KIND == "caught":
                continue
            if KIND == "raised from":
                raise RuntimeError("training failed") from error
            raise
    if KIND == "caught":
        raise ValueError("another error")

if __name__ == "__main__":
    main()
"""
FAILS = next(number for number, line in enumerate(SCRIPT.splitlines(), 1) if "raise OSError" in line)


def run(
    tmp_path: Path, kind: str, workers: int, *, watched: bool = True, plain: bool = False, batch: str = "list"
) -> Any:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    more = {"KIND": kind, "WORKERS": str(workers), "WATCH": str(int(watched)), "BATCH": batch}
    if plain:
        more["LOADERWATCH_PLAIN"] = "1"
    return subprocess.run(
        [sys.executable, str(script)], env={**os.environ, **more}, capture_output=True, text=True, check=False
    )


def own_lines(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line.startswith("loaderwatch:")]


def failed_of(rings: RingFolder) -> FailedSample:
    (process,) = rings.processes()
    assert process.state == "crashed"
    assert process.failed is not None
    return process.failed


CASES: dict[str, dict[str, Any]] = {
    "index": {"indices": [13], "samples": 1},
    "second epoch": {"indices": [13], "samples": 1},
    "awkward": {"indices": [13], "samples": 1},
    "raised from": {"indices": [13], "samples": 1},
    "keys": {"indices": ["thirteen"], "samples": 1},
    "numpy": {"indices": [13], "samples": 1},
    "one": {"indices": [13], "samples": 1},
    "batched": {"indices": [12, 13, 14, 15], "samples": 4},
    "stream": {"indices": [13], "samples": 1, "counted": True},
    "stream of single ones": {"indices": [13], "samples": 1, "counted": True},
    "own collate": {"indices": [4, 5, 6, 7], "samples": 4, "collating": True},
    "collate": {"indices": [0, 1, 14, 2], "samples": 4, "collating": True},
}


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", CASES)
def test_the_sample_and_the_line(tmp_path: Path, rings: RingFolder, kind: str, workers: int) -> None:
    done = run(tmp_path, kind, workers)
    failed = failed_of(rings)
    told = {
        name: getattr(failed, name)
        for name in ("indices", "samples", "counted", "collating")
        if name in CASES[kind]
    }
    assert told == CASES[kind]
    assert failed.worker == (0 if workers else -1)
    assert failed.at is not None
    if kind == "collate":
        assert failed.at.file.endswith("collate.py"), "no line of the script is involved"
    else:
        assert (failed.at.file, failed.at.function) == (str(tmp_path / "train.py"), "fail")
        assert failed.at.line == (FAILS - 1 if kind == "awkward" else FAILS)
        assert failed.error in (
            "OSError: truncated",
            "Awkward: (1, 2)",
        )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    reader = "worker 0" if workers else "the training process"
    assert re.match(rf"loaderwatch: \S+ crashed (in|before) [\w ]+: {reader} failed while ", last), last
    assert f":{failed.at.line} in {failed.at.function}" in last

    if kind == "raised from":
        assert re.search(
            r": OSError: truncated; then RuntimeError: training failed \(train.py:\d+ in main\)", last
        )


WHOLE = {"indices": [12, 13, 14, 15], "samples": 4, "collating": False}
ONE = {"indices": [13], "samples": 1, "collating": False}
UNKNOWN = {"indices": [], "samples": 1, "collating": False}


@pytest.mark.parametrize(
    ("batch", "expected", "workers"),
    [
        *(
            (batch, WHOLE, workers)
            for batch in ("subclass", "tuple", "range", "array", "tensor", "keys")
            for workers in ((0, 2) if batch == "subclass" else (0,))
        ),
        ("numbers", ONE, 0),
        ("records", UNKNOWN, 0),
        ("generator", UNKNOWN, 0),
    ],
)
def test_the_batch_is_named_where_reads_are_not_counted(
    tmp_path: Path, rings: RingFolder, batch: str, expected: dict[str, Any], workers: int
) -> None:
    done = run(tmp_path, "batches", workers, batch=batch)
    failed = failed_of(rings)
    assert {name: getattr(failed, name) for name in expected} == expected
    what = {4: "samples 12, 13, 14, 15,", 1: "sample 13," if failed.indices else "a sample,"}[failed.samples]
    assert f" failed while reading {what} at" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("kind", "batch", "indices"),
    [
        ("collated batches", "tuple", [12, 13, 14, 15]),
        ("collated batches", "list", [12, 13, 14, 15]),
        ("collated at once", "list", [12, 13, 14, 15]),
        ("collated rest", "list", [12, 13]),
    ],
)
def test_collating_is_told_from_reading(
    tmp_path: Path, rings: RingFolder, kind: str, batch: str, indices: list[int]
) -> None:
    run(tmp_path, kind, 0, batch=batch)
    failed = failed_of(rings)
    assert (failed.indices, failed.samples, failed.collating) == (indices, len(indices), True)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("kind", "ended"), [("handler calls", "ValueError: loss became NaN"), ("handler is wrong", "KeyError")]
)
def test_an_error_of_the_handler_is_not_the_samples(
    tmp_path: Path, rings: RingFolder, kind: str, ended: str, workers: int
) -> None:
    done = run(tmp_path, kind, workers)
    (process,) = rings.processes()
    assert process.failed is None
    last = done.stderr.splitlines()[-1]
    assert f": {ended}" in last
    assert "failed while" not in last


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", ["handler replaces", "handler goes on"])
@pytest.mark.parametrize("plain", [False, True])
def test_an_error_that_replaces_the_samples_is_told_with_it(
    tmp_path: Path, rings: RingFolder, kind: str, workers: int, plain: bool
) -> None:
    """Also where the loader has read on in the meantime."""
    done = run(tmp_path, kind, workers, plain=plain)
    assert failed_of(rings).indices == [13]
    last = done.stderr.splitlines()[-1]
    assert re.search(
        r"failed while reading sample 13, at .*: OSError: truncated; then ValueError:"
        r" loss became NaN \(train",
        last,
    )


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", ["index", "awkward", "collate"])
def test_the_error_itself_stays_as_it_is(tmp_path: Path, kind: str, workers: int) -> None:
    bare, watched = (run(tmp_path, kind, workers, watched=watch) for watch in (False, True))
    assert watched.returncode == bare.returncode == 1
    text = [line for line in watched.stderr.splitlines() if not line.startswith("loaderwatch:")]
    assert text == bare.stderr.splitlines()
    assert own_lines(watched.stderr)


@pytest.mark.parametrize("kind", ["index", "stream", "own collate"])
def test_the_same_without_compiled_code(tmp_path: Path, rings: RingFolder, kind: str) -> None:
    run(tmp_path, kind, 1, plain=True)
    assert failed_of(rings).indices == CASES[kind]["indices"]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_that_the_script_has_caught_is_not_what_it_died_of(
    tmp_path: Path, rings: RingFolder, workers: int
) -> None:
    done = run(tmp_path, "caught", workers)
    (process,) = rings.processes()
    assert (process.state, process.exit) == ("crashed", "uncaught ValueError: another error")
    assert process.failed is None
    assert "failed while" not in done.stderr


def test_an_interrupt_of_a_fetch_blames_no_sample(tmp_path: Path, rings: RingFolder) -> None:
    done = run(tmp_path, "interrupt", 0)
    (process,) = rings.processes()
    assert (process.state, process.exit) == ("crashed", "uncaught KeyboardInterrupt")
    assert process.failed is None
    assert "failed while" not in done.stderr


def test_an_error_that_never_reaches_the_training_process(tmp_path: Path) -> None:
    """PyTorch's worker cannot pickle it, so the training waits forever: the line on stderr says why."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "KIND": "local", "WORKERS": "1", "WATCH": "1"}
    with subprocess.Popen(
        [sys.executable, str(script)],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as training:
        assert training.stderr is not None
        try:
            told = next(line for line in training.stderr if line.startswith("loaderwatch: worker 0 failed"))
        finally:
            os.killpg(training.pid, signal.SIGKILL)
    assert "reading sample 13, at" in told
    assert "Local: not at the top of a module" in told
    assert "cannot be handed to the training process" in told
