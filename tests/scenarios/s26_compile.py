"""S26: torch.compile waits for a pool of compiler processes that all wait for a lock; nobody computes."""

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, vary

forked = multiprocessing.get_context("fork")
lock = forked.Lock()


def compile_kernel() -> None:
    """The lock was held when this process began."""
    with lock:
        pass


def with_a_pool(graph: torch.fx.GraphModule, _example: list[torch.Tensor]) -> Callable[..., Any]:
    """A backend that has its kernels compiled by others, as inductor does."""
    with lock, ProcessPoolExecutor(2, mp_context=forked) as pool:
        for done in [pool.submit(compile_kernel) for _ in range(2)]:
            done.result()
    return graph.forward


batch_size = vary(8, 5)
loader = loaderwatch.attach(
    DataLoader(SlowDataset(batch_size * 2000), batch_size=batch_size, num_workers=vary(1, 2))
)
model = torch.compile(torch.nn.Linear(16, 4), backend=with_a_pool)
torch.set_num_threads(1)
for number, batch in enumerate(loader):
    time.sleep(0.03)
    if number >= vary(100, 130):
        model(batch).sum()
