"""Reads a few samples of a loader as a worker would, in a forked child that cannot harm the script."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, Final

import msgspec
import torch
from torch.utils.data import _utils

from loaderwatch.agent.loader_description import is_iterable_dataset
from loaderwatch.core.facts import LoaderProbe
from loaderwatch.core.wire import decode_json

READ_S: Final = 2.0
"""How long samples are read, in s: enough for a batch of ordinary images."""
GIVE_UP_S: Final = 20.0
"""The limit for reading the samples and pickling the dataset together, in s."""
MOST_SAMPLES: Final = 256


def probe_loader(loader: Any, number: int, batch: int, start_method: str | None) -> LoaderProbe:
    """Read and collate samples of the first batch in a child; pickle the dataset if workers need that."""
    receive, send = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        try:
            os.close(receive)
            probe = _probe(loader, number, batch, start_method)
            os.write(send, msgspec.json.encode(probe))
        finally:
            os._exit(0)
    os.close(send)
    began = time.monotonic()
    try:
        answer = _read_all(receive, began + GIVE_UP_S)
    finally:
        os.close(receive)
        late = time.monotonic() >= began + GIVE_UP_S
        if late:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    try:
        return decode_json(answer, LoaderProbe)
    except msgspec.DecodeError:  # killed, by us or by what it read
        killer = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) and not late else None
        return LoaderProbe(loader=number, batch=batch, died=killer, unfinished_s=GIVE_UP_S if late else None)


def _read_all(file: int, deadline: float) -> bytes:
    parts = []
    while (left_s := deadline - time.monotonic()) > 0 and select.select([file], [], [], left_s)[0]:
        part = os.read(file, 65536)
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


def _probe(loader: Any, number: int, batch: int, start_method: str | None) -> LoaderProbe:
    probe = LoaderProbe(loader=number, batch=batch)
    if start_method not in (None, "fork"):
        probe = _pickled(probe, loader)
    try:
        return _read(probe, loader)
    except Exception as error:  # noqa: BLE001 - any error of the user's dataset is the answer
        return msgspec.structs.replace(probe, error=_one_line(error))


def _pickled(probe: LoaderProbe, loader: Any) -> LoaderProbe:
    sink = _Counter()
    began = time.perf_counter()
    for name in ("dataset", "collate_fn", "worker_init_fn"):
        value = getattr(loader, name)
        error = _pickle_error(value, sink)
        if error is not None:
            return msgspec.structs.replace(probe, pickle_error=_culprit(name, value, error))
    return msgspec.structs.replace(probe, pickle_bytes=sink.size, pickle_s=time.perf_counter() - began)


def _pickle_error(value: Any, sink: io.RawIOBase) -> str | None:
    try:
        ForkingPickler(sink).dump(value)
    except Exception as error:  # noqa: BLE001 - objects may raise anything when they are pickled
        return _one_line(error)
    return None


def _culprit(name: str, value: Any, error: str) -> str:
    """Name the attribute of an object that cannot be pickled, with its error."""
    for attribute, inner in list(getattr(value, "__dict__", {}).items()):
        if (inner_error := _pickle_error(inner, _Counter())) is not None:
            return f"{name}.{attribute}: {inner_error}"
    return f"{name}: {error}"


class _Counter(io.RawIOBase):
    """A file that only counts the written bytes."""

    size = 0

    def write(self, data: Any) -> int:
        self.size += len(data)
        return len(data)


def _read(probe: LoaderProbe, loader: Any) -> LoaderProbe:
    threads_before = _threads()  # includes the thread that pickling tensors starts; no worker has it
    if loader.num_workers:
        _become_worker(loader)
    source = _samples(loader, max(1, probe.batch))
    _warm_up(loader, next(source, None))
    samples: list[Any] = []
    threads, read_before = _threads(), _read_chars()
    waited_began, cpu_began, main_began = _cpu_wait_s(), time.process_time(), time.thread_time()
    began = time.perf_counter()
    for sample in source:
        samples.append(sample)
        threads = max(threads, _threads())
        if time.perf_counter() - began > READ_S or len(samples) >= MOST_SAMPLES:
            break
    if not samples:
        return probe
    collated = _collated(loader, samples)
    wall_s = time.perf_counter() - began
    main_cpu_s, cpu_s = time.thread_time() - main_began, time.process_time() - cpu_began
    waited_s = _cpu_wait_s() - waited_began
    read_after = _read_chars()
    leaves = list(_leaves(collated))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    arrays = [leaf for leaf in leaves if type(leaf).__module__ == "numpy" and hasattr(leaf, "nbytes")]
    return msgspec.structs.replace(
        probe,
        samples=len(samples),
        wall_s=max(main_cpu_s, wall_s - waited_s),  # waiting for a CPU is no cost of the loader
        cpu_s=cpu_s,
        main_cpu_s=main_cpu_s,
        threads=max(threads, _threads()) - threads_before + 1,
        bytes=sum(t.numel() * t.element_size() for t in tensors) + sum(int(a.nbytes) for a in arrays),
        read_bytes=None if read_before is None or read_after is None else read_after - read_before,
        tensors=len(tensors),
        arrays=len(arrays),
        objects=len(leaves) - len(tensors) - len(arrays),
    )


def _warm_up(loader: Any, sample: Any) -> None:
    """Collate once, so that what only the first collation imports, opens and starts is not measured."""
    with contextlib.suppress(Exception):  # some collations need more than one sample
        _collated(loader, [sample])


def _collated(loader: Any, samples: list[Any]) -> Any:
    return samples[0] if loader.batch_size is None else loader.collate_fn(samples)


def _become_worker(loader: Any) -> None:
    """Do what PyTorch's worker loop does before its first sample."""
    torch.set_num_threads(1)
    info = _utils.worker.WorkerInfo
    _utils.worker._worker_info = info(id=0, num_workers=loader.num_workers, seed=0, dataset=loader.dataset)
    if loader.worker_init_fn is not None:
        loader.worker_init_fn(0)


def _samples(loader: Any, batch: int) -> Iterator[Any]:
    """Yield the first sample twice, then the rest of the first batch."""
    dataset = loader.dataset
    if is_iterable_dataset(loader):
        yield from islice(iter(dataset), batch + 1)
        return
    indices = (
        [next(iter(loader.sampler))] if loader.batch_size is None and loader.batch_sampler is None else None
    )
    indices = indices or list(islice(iter(next(iter(loader.batch_sampler), ())), batch))
    if not indices:
        return
    many = getattr(dataset, "__getitems__", None)
    if many is None:
        for index in [indices[0], *indices]:
            yield dataset[index]
        return
    yield many([indices[0]])[0]
    yield from many(indices)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, (list, tuple, set)):
        for inner in value:
            yield from _leaves(inner)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _leaves(getattr(value, field.name))
    else:
        yield value


def _cpu_wait_s() -> float:
    """Return how long the main thread was ready without a CPU (Documentation/scheduler/sched-stats.rst)."""
    try:
        return int(Path("/proc/self/schedstat").read_text("ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _read_chars() -> int | None:
    """Return the bytes of all read(2) calls, also from page cache and sockets (proc_pid_io(5)), or None."""
    try:
        return int(Path("/proc/self/io").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _threads() -> int:
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:
        return 1


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:400] if text else type(error).__name__
