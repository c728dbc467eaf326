"""A small training that the cases share: loader, model, step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.compat.case import Watcher, seed

torch.set_num_threads(1)  # on a busy machine threads that wait for each other cost more than all the rest


class Net(nn.Module):
    """With a batch norm, whose buffers DDP sends around, and a dropout, which draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.25)
        self.last = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.drop(torch.relu(self.norm(self.first(x))))
        out: torch.Tensor = self.last(hidden)
        return out


def data(samples: int = 24, batch: int = 4, **options: Any) -> DataLoader[Any]:
    """A loader over the same numbers every time, shuffled by the global generator."""
    numbers = torch.arange(samples * 6, dtype=torch.float32).reshape(samples, 6)
    return DataLoader(
        TensorDataset(torch.sin(numbers[:, :4]), torch.cos(numbers[:, 4:])),
        **{"batch_size": batch, "shuffle": True, **options},
    )


def setup(
    watch: Watcher, optimizer: Any = torch.optim.SGD, **options: Any
) -> tuple[Any, Any, DataLoader[Any]]:
    """Model, optimizer and loader, watched if the case is."""
    seed()
    model = Net()
    stepper = optimizer(model.parameters(), **{"lr": 0.1, **options})
    return model, stepper, watch(data(), model=model, optimizer=stepper)


def error_of(model: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    """The loss."""
    return ((model(x) - y) ** 2).mean()


def train(model: Any, optimizer: Any, loader: Iterable[Any], most: int = 10_000) -> list[float]:
    """An epoch; its losses."""
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = error_of(model, x, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if len(losses) == most:
            break
    return losses


def state(model: nn.Module) -> dict[str, torch.Tensor]:
    """All parameters and buffers, to the bit."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
