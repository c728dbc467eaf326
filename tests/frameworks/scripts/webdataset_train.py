"""webdataset: tar files, written once, split by worker, shuffled in a buffer, read by its WebLoader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import webdataset as wds
from torch import nn


def write(folder, shards):
    Path(folder).mkdir()
    numbers = np.random.default_rng(shards)
    for shard in range(shards):
        with wds.TarWriter(f"{folder}/{shard:03}.tar") as out:
            for number in range(40):
                label = int(numbers.integers(0, 2))
                picture = (numbers.random(784) + label).astype(np.float32)
                out.write({"__key__": f"{shard}-{number}", "x.npy": picture, "y.cls": label})


def main():
    torch.manual_seed(1)
    write("train", 4)
    write("val", 2)
    train_set = wds.WebDataset("train/{000..003}.tar", shardshuffle=4, seed=1).shuffle(40, seed=1).decode()
    train_set = train_set.to_tuple("x.npy", "y.cls").batched(16, partial=False)
    train_loader = wds.WebLoader(train_set, batch_size=None, num_workers=2).with_epoch(10)
    val_set = wds.WebDataset("val/{000..001}.tar", shardshuffle=False).decode().to_tuple("x.npy", "y.cls")
    val_loader = wds.WebLoader(val_set.batched(16), batch_size=None, num_workers=1)
    model = nn.Sequential(nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(torch.as_tensor(x)), torch.as_tensor(y))
            loss.backward()
            optimizer.step()
            print(f"epoch {epoch}: loss {loss.item()!r}")
        model.eval()
        with torch.no_grad():
            right = sum(
                int((model(torch.as_tensor(x)).argmax(1) == torch.as_tensor(y)).sum()) for x, y in val_loader
            )
        print(f"epoch {epoch}: {right} right")


if __name__ == "__main__":
    main()
