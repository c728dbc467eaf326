"""A training that keeps its own books: what it did goes into plain files, by other means than loaderwatch's.

Run as a script, once per rank, with a plan (JSON) as its argument. Each process appends to a file of its own,
one line and one system call per event. So SIGKILL leaves at most the event in flight undecided.
``tests/faults/ledger.py`` reads the files.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, get_worker_info

import loaderwatch

BATCH_SIZE: Final = 2
PLAN: Final[dict[str, Any]] = {
    "books": "",  # the folder of the files
    "workers": 2,
    "batches": 50,  # per epoch
    "epochs": 1_000_000,
    "seconds": 900.0,  # then it ends in order, within an epoch; or when a file "enough" lies with the books
    "step_s": 0.01,
    "sample_s": 0.002,
    "persistent": False,
    "method": "fork",
    "attach": True,
    "group": True,  # ranks train together, by DDP; without, each goes on whatever happens to the others
}
"""What a plan may set."""


class Book:
    """An append-only file of one process."""

    def __init__(self, folder: str, kind: str) -> None:
        path = Path(folder) / f"{kind}-{os.environ.get('RANK', '0')}-{os.getpid()}.log"
        self.pid = os.getpid()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def say(self, *words: object) -> None:
        """One line: what happened, to which, when (monotonic)."""
        os.write(self._fd, (" ".join(map(str, (*words, time.monotonic_ns()))) + "\n").encode())


_book: Book | None = None


def fetch_book(folder: str) -> Book:
    """The book of fetches of this process; a forked worker opens its own."""
    global _book
    if _book is None or _book.pid != os.getpid():
        _book = Book(folder, "fetch")
        _book.say("open", worker_id())
    return _book


def worker_id() -> int:
    """-1 on the training thread."""
    info = get_worker_info()
    return -1 if info is None else info.id


class Samples(Dataset[Tensor]):
    """Samples that take time; each read is a line."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan

    def __len__(self) -> int:
        return int(self.plan["batches"]) * BATCH_SIZE

    def __getitem__(self, index: int) -> Tensor:
        fetch_book(self.plan["books"]).say("item", index)
        time.sleep(self.plan["sample_s"])
        return torch.full((8,), float(index))


class Collate:
    """Joins a batch and counts it. The batch says who fetched it: pid, and its number within that process."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.pid = 0
        self.count = 0

    def __call__(self, samples: list[Tensor]) -> dict[str, Tensor]:
        if self.pid != os.getpid():
            self.pid, self.count = os.getpid(), 0
        batch = {"x": torch.stack(samples), "by": torch.tensor([self.pid, self.count])}
        fetch_book(self.folder).say("fetched", self.count)
        self.count += 1
        return batch


def main() -> None:
    """Train as planned."""
    plan = PLAN | json.loads(sys.argv[1])
    assert set(plan) == set(PLAN), sorted(set(plan) - set(PLAN))
    torch.set_num_threads(1)
    ranks = int(os.environ.get("WORLD_SIZE", "1")) if plan["group"] else 1
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
    model: nn.Module = nn.Linear(8, 1)
    if ranks > 1:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    workers = int(plan["workers"])
    loader = DataLoader(
        Samples(plan),
        batch_size=BATCH_SIZE,
        num_workers=workers,
        collate_fn=Collate(plan["books"]),
        persistent_workers=bool(plan["persistent"]) and workers > 0,
        multiprocessing_context=plan["method"] if workers else None,
    )
    if plan["attach"]:
        loaderwatch.attach(loader)
    book = Book(plan["books"], "train")
    book.say("open", worker_id())
    end = End(Path(plan["books"]) / "enough", plan["seconds"], ranks)
    try:
        for epoch in range(plan["epochs"]):
            if not train(loader, model, optimizer, epoch, book, plan["step_s"], end):
                break
    except BaseException as error:
        book.say("failed", type(error).__name__)
        raise
    book.say("bye")


class End:
    """When to stop: all ranks in the same step."""

    def __init__(self, file: Path, seconds: float, ranks: int) -> None:
        self.file = file
        self.deadline = time.monotonic() + seconds
        self.ranks = ranks

    def has_come(self) -> bool:
        """Whether any rank has to stop."""
        told = self.file.exists() or time.monotonic() > self.deadline
        if self.ranks == 1:
            return told
        anybody = torch.tensor([float(told)])
        torch.distributed.all_reduce(anybody)
        return bool(anybody.item())


def train(
    loader: DataLoader[Tensor],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    epoch: int,
    book: Book,
    step_s: float,
    end: End,
) -> bool:
    """One epoch; False when the time is over."""
    book.say("iter", epoch)
    batches = iter(loader)
    number = 0
    while not end.has_come():
        book.say("ask", epoch, number)  # the step before this one has ended
        try:
            batch: Any = next(batches)
        except StopIteration:
            book.say("end", epoch, number)
            return True
        book.say("got", epoch, number, *batch["by"].tolist())
        optimizer.zero_grad()
        model(batch["x"]).mean().backward()
        optimizer.step()
        time.sleep(step_s)
        number += 1
    book.say("leave", epoch, number)
    del batches
    book.say("left", epoch, number)
    return False


if __name__ == "__main__":
    main()
