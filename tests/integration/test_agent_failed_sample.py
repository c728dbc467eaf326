"""A training that dies of an error in its dataset: which sample, which worker, which line; the error stays as it is."""

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

def loader():
    workers = int(os.environ["WORKERS"])
    more = {"num_workers": workers, "persistent_workers": workers > 0 and KIND == "second epoch"}
    if KIND == "keys":
        return DataLoader(Pictures(), sampler=["one", "thirteen", "two"], batch_size=2, **more)
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

def main():
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


def run(tmp_path: Path, kind: str, workers: int, *, watched: bool = True, plain: bool = False) -> Any:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    more = {"KIND": kind, "WORKERS": str(workers), "WATCH": str(int(watched))}
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
            "truncated",
            "__main__.Awkward: (1, 2)",
            "Awkward: (1, 2)",
        )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    reader = "worker 0" if workers else "the training process"
    assert re.match(rf"loaderwatch: \S+ crashed (in|before) [\w ]+: {reader} failed while ", last), last
    assert f":{failed.at.line} in {failed.at.function}" in last


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
    """PyTorch's worker cannot pickle it, so the training waits for ever: the line on stderr says why."""
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
