"""``attach(loader, sample_timeout=…)`` with real DataLoaders: interrupted samples and ended workers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

import loaderwatch
from loaderwatch.core.config import load_settings
from loaderwatch.core.records import Outcome, RecordKind
from tests.conftest import RingFolder
from tests.fakes.receiver import Receiver
from tests.fakes.streaming import Streaming
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [
    pytest.mark.usefixtures("data_dir", "no_streamer"),
    pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's timers"),
]

LIMIT_S = 1.0  # a machine with much else to do must not make a healthy sample late
FIRST_LATE = 1

SCRIPT = """
import fcntl, itertools, json, os, random, signal, socket, subprocess, sys, threading, time
import torch
from torch.utils.data import DataLoader, Dataset
import loaderwatch

late, options, limits = sys.argv[1].split(","), json.loads(sys.argv[2]), json.loads(sys.argv[3])

def nothing(): pass
def sleeping(): time.sleep(1000)
def fifo():
    path = f"fifo-{os.getpid()}"
    if not os.path.exists(path): os.mkfifo(path)
    open(path).read()
def a_socket():
    one, other = socket.socketpair()
    one.makefile("rb").readline()
def a_lock():
    lock = threading.Lock()
    lock.acquire()
    with lock: pass
def a_file_lock():
    with open("held") as file: fcntl.flock(file, fcntl.LOCK_EX)
def a_process(): subprocess.run(["sleep", "1000"])
def looping():
    while True: pass
def spinning(): sum(itertools.repeat(0, 10**13))  # in C, and holds the interpreter's lock
def retrying():
    while True:
        try: time.sleep(1000)
        except Exception: pass
def wrapping():
    try: time.sleep(1000)
    except BaseException as error: raise ValueError("cannot read") from error
def cleaning():
    try: time.sleep(1000)
    finally: time.sleep(1000)
def catching():
    while True:
        try: time.sleep(1000)
        except: pass
def an_alarm():
    def rings(number, frame): raise KeyError("the user's own alarm")
    signal.signal(signal.SIGALRM, rings)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    try: time.sleep(1000)
    except KeyError: time.sleep(1000)
def blocked_signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - {signal.SIGRTMAX - 1})
    spinning()

class Numbers(Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, index):
        drawn = random.random()
        which, between = divmod(index - 1, 2)
        if not between and 0 <= which < len(late):
            globals()[late[which]]()
        return torch.tensor([index, drawn])

if __name__ == "__main__":
    held = open("held", "w")
    fcntl.flock(held, fcntl.LOCK_EX)
    torch.manual_seed(1)
    loader = DataLoader(Numbers(), batch_size=4, shuffle=True, **options)
    if limits is not None:
        loaderwatch.attach(loader, name="numbers", **limits)
    for epoch in range(2):
        got, error = [], None
        try:
            for batch in loader:
                got += batch.tolist()
        except Exception as raised:
            error = [type(raised).__name__, str(raised)]
        print(json.dumps({"got": got, "error": error}), flush=True)
        if error is not None and "ended" in error[1]:
            break
"""


def train(
    folder: Path, late: Sequence[str], limits: dict[str, Any] | None, **options: Any
) -> tuple[list[dict[str, Any]], str]:
    """What each epoch delivered, and the job's stderr. Samples with odd numbers do what ``late`` says."""
    script = folder / "train.py"
    script.write_text(SCRIPT)
    plain = {"LOADERWATCH_PLAIN": os.environ.get("LOADERWATCH_PLAIN", "")}
    done = subprocess.run(
        [sys.executable, str(script), ",".join(late), json.dumps(options), json.dumps(limits)],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **plain},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


SKIP = {"sample_timeout": LIMIT_S, "on_timeout": "skip"}
RAISE = {"sample_timeout": LIMIT_S}
long = pytest.mark.long


INTERRUPTED = (
    "sleeping",
    "fifo",
    "a_socket",
    "a_lock",
    "a_file_lock",
    "a_process",
    "looping",
    "retrying",
    "wrapping",
    "cleaning",
    "an_alarm",
)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", pytest.param("forkserver", marks=long)])
def test_skip_leaves_exactly_those_samples_out(method: str, tmp_path: Path) -> None:
    workers = {"num_workers": 2, "persistent_workers": True, "multiprocessing_context": method}
    epochs, said = train(tmp_path, INTERRUPTED, SKIP, **workers)
    late = {FIRST_LATE + 2 * number: what for number, what in enumerate(INTERRUPTED)}
    assert [epoch["error"] for epoch in epochs] == [None, None]
    for epoch in epochs:  # the same workers
        assert sorted(index for index, _ in epoch["got"]) == sorted({*range(24)} - {*late})
    for index, what in late.items():
        line = next(line for line in said.splitlines() if f"left out sample {index} of numbers: it" in line)
        assert "longer than sample_timeout=1, at " in line
        assert f"{tmp_path}/train.py:" in line
        assert f" in {what}" in line
    assert " Further ones are only counted, on the page" in said  # 22 of two workers


def test_order_and_random_numbers_of_the_rest_stay(tmp_path: Path) -> None:
    bare, _ = train(tmp_path, ["nothing"], None, num_workers=2)
    epochs, _ = train(tmp_path, ["sleeping"], SKIP, num_workers=2)
    for with_limit, without in zip(epochs, bare, strict=True):
        assert with_limit["got"] == [one for one in without["got"] if one[0] != FIRST_LATE]


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=long)])
def test_raise_names_sample_line_and_seconds(method: str, tmp_path: Path) -> None:
    workers = {"num_workers": 2, "persistent_workers": True, "multiprocessing_context": method}
    epochs, _ = train(tmp_path, ["a_socket"], RAISE, **workers)
    for epoch in epochs:  # the workers live, and the next epoch comes to the same sample
        kind, text = epoch["error"]
        assert kind == "SampleTimeout"
        last = text.strip().splitlines()[-1]
        took = re.search(rf"SampleTimeout: sample {FIRST_LATE} of numbers took (\d+\.\d) s", last)
        assert took is not None
        assert float(took[1]) >= LIMIT_S
        assert "longer than sample_timeout=1. It stood at " in last
        assert f"{tmp_path}/train.py:" in last
        assert "in a_socket, inside socket.py:" in last
        assert "recv_into" in text  # the traceback goes down to the line, without ours
        assert "loaderwatch/agent" not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "method"),
    [
        ("spinning", "fork"),
        ("catching", "fork"),
        pytest.param("spinning", "spawn", marks=long),
    ],
)
def test_what_cannot_be_interrupted_is_ended(what: str, method: str, tmp_path: Path) -> None:
    workers = {"num_workers": 2, "persistent_workers": True, "multiprocessing_context": method}
    (epoch,), said = train(tmp_path, [what], SKIP, **workers)
    kind, text = epoch["error"]
    assert kind == "SampleTimeout"
    assert text.startswith(f"sample {FIRST_LATE} of numbers took ")
    assert "It could not be interrupted, so the worker was ended: it stood at " in text
    assert f"train.py:{line_of(what)} in {what}, in code that does not return to Python" in text
    assert "left out" not in said


@pytest.mark.slow
def test_a_worker_that_even_blocks_the_signals_is_ended(tmp_path: Path) -> None:
    """As of one that is stuck in the kernel, no stack is known."""
    (epoch,), _ = train(tmp_path, ["blocked_signals"], RAISE, num_workers=1, persistent_workers=True)
    kind, text = epoch["error"]
    assert kind == "SampleTimeout"
    assert "was ended: it was stuck in the kernel" in text


def line_of(function: str) -> int:
    lines = SCRIPT.splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith(f"def {function}("))
    wanted = "sum(" if function == "spinning" else "time.sleep"
    return 1 + next(at for at, line in enumerate(lines) if at >= begin and wanted in line)


@long
@pytest.mark.parametrize("what", ["sleeping", "spinning"])
def test_without_the_compiled_hot_path(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADERWATCH_PLAIN", "1")
    epochs, _ = train(tmp_path, [what], SKIP, num_workers=2, persistent_workers=True)
    if what == "sleeping":
        assert [len(epoch["got"]) for epoch in epochs] == [23, 23]
    else:
        assert epochs[0]["error"][0] == "SampleTimeout"


class Numbers(Dataset[Any]):
    """``late`` sleep for ever."""

    def __init__(self, *late: int) -> None:
        self.late = late

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        if index in self.late:
            time.sleep(1000)
        return torch.tensor(index)


class AtOnce(Numbers):
    """Reads all samples of a batch at once."""

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


class Stream(IterableDataset[Any]):
    """Its third sample never comes."""

    def __iter__(self) -> Any:
        yield from (0, 1)
        time.sleep(1000)
        yield 3


def delivered(loader: Any) -> list[Any]:
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_without_samples_is_not_delivered(
    workers: int, rings: RingFolder, capfd: pytest.CaptureFixture[str]
) -> None:
    loader = DataLoader(Numbers(0, 4, 5), batch_size=2, num_workers=workers)
    loaderwatch.attach(loader, name="numbers", sample_timeout=LIMIT_S, on_timeout="skip")
    assert delivered(loader) == [[1], [2, 3], [6, 7], [8, 9], [10, 11]]
    records = [
        one for ring in [*rings.mains(), *rings.workers()] for one in ring.of(RecordKind.SAMPLE_TIMEOUT)
    ]
    assert sorted(record["index"] for record in records) == [0, 4, 5]
    assert {record["outcome"] for record in records} == {Outcome.SKIPPED}
    assert {record["limit_ns"] for record in records} == {LIMIT_S * 1e9}
    assert all(record["duration_ns"] >= LIMIT_S * 1e9 for record in records)
    assert all((record["worker"] >= 0) == bool(workers) for record in records)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_sample_of_a_split_is_left_out(workers: int) -> None:
    split = Subset(Numbers(3), list(range(11, -1, -1)))
    loader = DataLoader(split, batch_size=4, num_workers=workers)
    loaderwatch.attach(loader, sample_timeout=LIMIT_S, on_timeout="skip")
    assert delivered(loader) == [[11, 10, 9, 8], [7, 6, 5, 4], [2, 1, 0]]


@pytest.mark.slow
def test_a_batch_without_samples_is_an_error_where_other_ranks_count_on_it(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        """
import sys, time, torch, loaderwatch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self): return 4
    def __getitem__(self, index):
        if index == 2: time.sleep(1000)
        return torch.tensor(index)

dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=int(sys.argv[2]), world_size=2)
loader = DataLoader(Numbers(), num_workers=1)
loaderwatch.attach(loader, sample_timeout=1.0, on_timeout="skip")
try:
    for batch in loader: pass
except loaderwatch.SampleTimeout as error:
    print(error)
dist.barrier()
dist.destroy_process_group()
"""
    )
    command = [sys.executable, str(script), str(tmp_path / "group")]
    ranks = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        for rank in ranks:
            out, err = rank.communicate(timeout=PATIENCE_S)
            assert rank.returncode == 0, err
            assert out.startswith("all 1 samples of a batch of ")
    finally:
        for rank in ranks:
            rank.kill()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_stream_raises(workers: int) -> None:
    loader = DataLoader(Stream(), batch_size=2, num_workers=workers)
    loaderwatch.attach(loader, name="stream", sample_timeout=LIMIT_S)
    batches = iter(loader)
    assert next(batches).tolist() == [0, 1]
    with pytest.raises(loaderwatch.SampleTimeout) as raised:
        next(batches)
    took = re.search(r"sample number 2 of stream took (\d+\.\d) s in .*test_sample_t", str(raised.value))
    assert took is not None
    assert float(took[1]) >= LIMIT_S


@pytest.mark.parametrize(
    ("dataset", "options", "what"),
    [
        (AtOnce(3), {"batch_size": 4}, r"__getitems__\(\[0, 1, 2, 3\]\) of numbers took"),
        (Numbers(3), {"batch_size": None}, "sample 3 of numbers took"),
    ],
)
def test_what_counts_as_a_sample(dataset: Any, options: dict[str, Any], what: str) -> None:
    loader = DataLoader(dataset, num_workers=1, **options)
    loaderwatch.attach(loader, name="numbers", sample_timeout=LIMIT_S)
    with pytest.raises(loaderwatch.SampleTimeout, match=what):
        delivered(loader)


def test_on_another_thread_nothing_is_interrupted_and_that_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    loader = DataLoader(Numbers(), batch_size=4)
    loaderwatch.attach(loader, sample_timeout=60)
    iter(loader)
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.extend(delivered(loader)))
    thread.start()
    thread.join()
    assert [index for batch in got for index in batch] == [*range(12)]
    said = capfd.readouterr().err
    assert said.count("cannot keep sample_timeout=60") == 1
    assert "main thread" in said


def test_a_wait_of_the_loop_itself_is_no_sample() -> None:
    """Neither the step between two batches nor ``collate_fn`` has a limit."""

    def collate(samples: list[Any]) -> Any:
        time.sleep(1.2 * LIMIT_S)
        return torch.stack(samples)

    loader = DataLoader(Numbers(), batch_size=6, collate_fn=collate, num_workers=1)
    loaderwatch.attach(loader, sample_timeout=LIMIT_S)
    for _ in loader:
        time.sleep(1.2 * LIMIT_S)
    here = DataLoader(Numbers(), batch_size=6, collate_fn=collate)
    loaderwatch.attach(here, sample_timeout=LIMIT_S)
    for _ in here:
        time.sleep(1.2 * LIMIT_S)


def test_detach_ends_it() -> None:
    class Slow(Numbers):
        def __getitem__(self, index: int) -> Any:
            time.sleep(1.2 * LIMIT_S if index == 1 else 0)
            return torch.tensor(index)

    for workers in (0, 1):
        loader = DataLoader(Slow(), num_workers=workers)
        loaderwatch.attach(loader, sample_timeout=LIMIT_S)
        with pytest.raises(loaderwatch.SampleTimeout):
            delivered(loader)
        iterator = iter(loader)
        loaderwatch.detach(loader)
        if not workers:
            assert len([*iterator]) == 12  # also the pass that had begun
        assert len(delivered(loader)) == 12


def test_a_second_attach_changes_it() -> None:
    class Slow(Numbers):
        def __getitem__(self, index: int) -> Any:
            time.sleep(1.2 * LIMIT_S if index == 1 else 0)
            return torch.tensor(index)

    loader = DataLoader(Slow(), num_workers=1)
    loaderwatch.attach(loader, sample_timeout=LIMIT_S)
    loaderwatch.attach(loader, sample_timeout=60)
    assert len(delivered(loader)) == 12
    loaderwatch.attach(loader)  # says nothing of it
    loaderwatch.attach(loader, sample_timeout=LIMIT_S, on_timeout="skip")
    assert [batch for (batch,) in delivered(loader)] == [0, *range(2, 12)]


KILLED = """
import os, signal
from torch.utils.data import DataLoader
import loaderwatch

class Dying:
    def __len__(self):
        return 12

    def __getitem__(self, index):
        if index == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return index

try:
    for _ in loaderwatch.attach(DataLoader(Dying(), num_workers=1), sample_timeout=60):
        pass
except (RuntimeError, EOFError, OSError) as error:
    # by hand: PyTorch's signal handler may raise a second error, also while Python prints the first one
    os.write(2, f"{type(error).__name__}: {error}".encode())
    raise SystemExit(1)
"""


def test_a_worker_that_somebody_kills_is_pytorchs_to_tell(tmp_path: Path) -> None:
    """In a process of its own: PyTorch's signal handler raises wherever the main thread happens to be."""
    (tmp_path / "train.py").write_text(KILLED)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "train.py")], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 1
    assert re.search(r"^(RuntimeError|EOFError|OSError|Connection\w+Error)\b", done.stderr, re.MULTILINE), (
        done.stderr
    )
    assert "SampleTimeout" not in done.stderr


def test_without_a_limit_nothing_is_in_between() -> None:
    dataset = Numbers()
    loader = DataLoader(dataset, batch_size=4)
    loaderwatch.attach(loader)
    iterator: Any = iter(loader)
    assert iterator._dataset_fetcher.dataset is dataset
    assert iterator._dataset_fetcher.collate_fn is loader.collate_fn


@pytest.mark.slow
def test_what_was_left_out_arrives_at_the_server(data_dir: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    options = {"num_workers": 2, "persistent_workers": True}
    with Receiver() as receiver, Streaming(data_dir, receiver.url) as it:
        environ = {name: value for name, value in it.environ.items() if name != "LOADERWATCH_NO_STREAMER"}
        done = subprocess.run(
            [sys.executable, str(script), "sleeping", json.dumps(options), json.dumps(SKIP)],
            cwd=tmp_path,
            env={**environ, "LOADERWATCH_RUN": "train"},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr
        receiver.wait_for(lambda: receiver.in_order()[-1:] and receiver.in_order()[-1].final)
        assert receiver.column("sample_timeouts", "index") == [FIRST_LATE, FIRST_LATE]
        assert receiver.column("sample_timeouts", "outcome") == [Outcome.SKIPPED, Outcome.SKIPPED]
        assert receiver.column("sample_timeouts", "limit_ns") == [10**9, 10**9]
        rings = load_settings().rings_dir
        wait_until("the notes of the workers go", lambda: not list(rings.rglob("*.overrun")))
