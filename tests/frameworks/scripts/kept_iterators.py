"""Loaders that create their iterator in the constructor and keep it, as timm's and YOLOv5's do."""

from __future__ import annotations

import sys

import torch
from pictures import Pictures
from torch import nn
from torch.utils.data import DataLoader


class RepeatSampler:
    """A batch sampler that begins again and again."""

    def __init__(self, sampler):
        self.sampler = sampler

    def __len__(self):
        return len(self.sampler)

    def __iter__(self):
        while True:
            yield from iter(self.sampler)


class MultiEpochsDataLoader(DataLoader):
    """timm's shape."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._DataLoader__initialized = False
        if self.batch_sampler is None:
            self.sampler = RepeatSampler(self.sampler)
        else:
            self.batch_sampler = RepeatSampler(self.batch_sampler)
        self._DataLoader__initialized = True
        self.iterator = super().__iter__()

    def __len__(self):
        return len(self.sampler) if self.batch_sampler is None else len(self.batch_sampler.sampler)

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)


class InfiniteDataLoader(DataLoader):
    """YOLOv5's shape."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", RepeatSampler(self.batch_sampler))
        self.iterator = super().__iter__()

    def __len__(self):
        return len(self.batch_sampler.sampler)

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)


def main(kind):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train_loader = kind(Pictures("data", 160), batch_size=16, shuffle=True, num_workers=2)
    val_loader = kind(Pictures("data", 64), batch_size=16, num_workers=1)
    for epoch in range(3):
        model.train()
        for pictures, labels in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(pictures), labels)
            loss.backward()
            optimizer.step()
            print(f"epoch {epoch}: loss {loss.item()!r}")
        model.eval()
        with torch.no_grad():
            right = sum(int((model(x).argmax(1) == y).sum()) for x, y in val_loader)
        print(f"epoch {epoch}: {right} right")


if __name__ == "__main__":
    main({"multi-epochs": MultiEpochsDataLoader, "infinite": InfiniteDataLoader}[sys.argv[1]])
