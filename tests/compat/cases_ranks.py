"""Several ranks: DDP and related features over gloo, each variant bare and watched with equal numbers."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

from tests.compat.case import ATTACHED, BARE, EVERYTHING, RUN, Watcher, case, described, failure, seed
from tests.compat.training import Net, data, error_of, state, train

RANKS = 2


class Partly(nn.Module):
    """Uses its two halves alternately."""

    def __init__(self) -> None:
        super().__init__()
        self.halves = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 2)])
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        out: torch.Tensor = self.halves[self.calls % 2](x)
        return out


def _watched(watch: Watcher, samples: int = 16, module: Any = Net, **options: Any) -> tuple[Any, Any, Any]:
    seed()
    model = DistributedDataParallel(module(), **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(dist.get_rank())  # dropout and order differ from rank to rank
    return model, optimizer, watch(data(samples), model=model, optimizer=optimizer)


def _words(call: Callable[[], Any]) -> Any:
    """The error of a call without its frames, of which PyTorch has one more where a module has hooks."""
    try:
        return call()
    except Exception as error:
        return [type(error), str(error)]


def ddp(watch: Watcher) -> Any:
    """As it comes, with views of buckets, with a comm hook, with ``static_graph``, with unused parameters."""
    seen: list[Any] = []
    for options in (
        {},
        {"gradient_as_bucket_view": True},
        {"broadcast_buffers": False, "bucket_cap_mb": 1},
        {"static_graph": True},
        {"find_unused_parameters": True, "module": Partly},
    ):
        model, optimizer, loader = _watched(watch, **options)
        seen.append([train(model, optimizer, loader), state(model)])
    model, optimizer, loader = _watched(watch)
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    seen.append([train(model, optimizer, loader), state(model)])
    model, optimizer, loader = _watched(watch, module=Partly)
    seen.append(_words(lambda: train(model, optimizer, loader)))  # unused parameters that nobody announced
    return seen


def ddp_without_sync(watch: Watcher) -> Any:
    """Accumulation under ``no_sync``, with a checkpoint of the module inside and an evaluation in between."""
    model, optimizer, loader = _watched(watch, 24)
    losses = []
    for number, (x, y) in enumerate(loader, 1):
        with model.no_sync() if number % 3 else contextlib.nullcontext():
            loss = error_of(model, x, y)
            loss.backward()
        if number % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
        with torch.no_grad():
            losses += [loss, error_of(model.module, x, y)]
    return [losses, state(model), [*model.module.state_dict()]]


def joined(watch: Watcher) -> Any:
    """Uneven inputs: rank 1 has two batches more."""
    model, optimizer, loader = _watched(watch, 16 + 8 * dist.get_rank(), broadcast_buffers=False)
    with Join([model]):
        losses = train(model, optimizer, loader)
    return [losses, state(model)]


def ddp_compiled(watch: Watcher) -> Any:
    seed()
    model = torch.compile(DistributedDataParallel(Net()), backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # type: ignore[attr-defined]
    loader = watch(data(), model=model, optimizer=optimizer)
    return [train(model, optimizer, loader), state(model)]  # type: ignore[arg-type]


def sharded(watch: Watcher) -> Any:
    """FSDP as this version has it; where it does not run on CPUs, it fails alike."""

    def old() -> Any:
        from torch.distributed.fsdp import FullyShardedDataParallel

        seed()
        model = FullyShardedDataParallel(Net(), device_id=torch.device("cpu"))
        return _trained(model)

    def new() -> Any:
        from torch.distributed.fsdp import fully_shard

        seed()
        return _trained(fully_shard(Net()))

    def _trained(model: Any) -> Any:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = watch(data(), model=model, optimizer=optimizer)
        return train(model, optimizer, loader)

    return [_words(old), _words(new)]


def error_in_one_rank(watch: Watcher) -> Any:
    model, optimizer, loader = _watched(watch)

    def bodies() -> None:
        for number, (x, y) in enumerate(loader):
            if number == 2:
                raise ArithmeticError(f"in rank {dist.get_rank()}")
            train(model, optimizer, [(x, y)])

    return failure(bodies)


@contextlib.contextmanager
def _group(rank: int, file: str) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=RANKS)
    try:
        yield
    finally:
        dist.barrier()
        dist.destroy_process_group()


def _rank(rank: int, watch: Watcher, names: list[str], directory: str) -> None:
    """One rank: all the bodies named, one after the other; what they saw goes to a file."""
    if watch.way == EVERYTHING:
        import loaderwatch

        loaderwatch.attach()
    with _group(rank, f"{directory}/store"):
        seen = {name: described(globals()[name](watch)) for name in names}
    if watch.way != BARE:
        from loaderwatch.agent.guard import guard
        from loaderwatch.agent.session import current_session

        session = current_session()
        assert session is not None, "this rank was not watched"
        assert session.recorder.batches, "no batch of this rank was watched"
        assert guard.reset() == []
    Path(directory, f"rank-{rank}.json").write_text(json.dumps(seen))


def _ranks(watch: Watcher, *names: str) -> Any:
    with tempfile.TemporaryDirectory() as directory:
        try:
            spawn(_rank, (watch, list(names), directory), nprocs=RANKS)  # type: ignore[no-untyped-call]
        except Exception:
            traceback.print_exc()
            os._exit(1)  # ranks that fail alike are no result
        return [json.loads(Path(directory, f"rank-{rank}.json").read_text()) for rank in range(RANKS)]


@case(ways=(ATTACHED,), unwatched=True)
def spawned_ranks(watch: Watcher) -> Any:
    return _ranks(watch, "ddp", "ddp_without_sync", "joined", "error_in_one_rank")


@case(ways=(ATTACHED, EVERYTHING, RUN), long=True, unwatched=True)
def spawned_ranks_that_compile_and_shard(watch: Watcher) -> Any:
    return _ranks(watch, "ddp", "joined", "ddp_compiled", "sharded")


@case(ways=(ATTACHED,), long=True, unwatched=True)
def a_rank_that_fails(watch: Watcher) -> Any:
    """``spawn`` raises what the rank raised, and ends the other."""
    with tempfile.TemporaryDirectory() as directory:
        return failure(
            lambda: spawn(_failing, (watch, directory), nprocs=RANKS)  # type: ignore[no-untyped-call]
        )


def _failing(rank: int, watch: Watcher, directory: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=RANKS)
    model, optimizer, loader = _watched(watch)
    for number, (x, y) in enumerate(loader):
        if number == 2:
            if rank == 1:
                raise ArithmeticError("in rank 1")
            time.sleep(
                300
            )  # until it is ended: in a collective it might fail first, with an error of its own
        train(model, optimizer, [(x, y)])


@case(ways=(ATTACHED, RUN), long=True, unwatched=True)
def torchrun(watch: Watcher) -> Any:
    """Two ranks under torchrun. In the second run one fails, and torchrun's exit code says so."""
    seen: list[Any] = []
    for name in ("joined", "fails"):
        with tempfile.TemporaryDirectory() as directory:
            command = [
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--standalone",
                f"--nproc-per-node={RANKS}",
            ]
            command += ["-m", "tests.compat.cases_ranks", watch.way, name, directory]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            files = [Path(directory, f"rank-{rank}.json") for rank in range(RANKS)]
            seen.append([done.returncode, [one.read_text() if one.exists() else None for one in files]])
            if name == "joined" and done.returncode:
                seen.append(done.stderr)
    return seen


if __name__ == "__main__":
    way, wanted, where = sys.argv[1:]
    if wanted == "fails":
        _failing(int(os.environ["RANK"]), Watcher(way, "fork"), where)
    else:
        _rank(int(os.environ["RANK"]), Watcher(way, "fork"), [wanted], where)
