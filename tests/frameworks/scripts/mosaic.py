"""mosaicml-streaming: shards written once, streamed and shuffled by two workers."""

from __future__ import annotations

import numpy as np
import torch
from streaming import MDSWriter, StreamingDataset
from torch import nn
from torch.utils.data import DataLoader


def write(folder, length):
    numbers = np.random.default_rng(length)
    columns = {"picture": "ndarray:float32:784", "label": "int"}
    with MDSWriter(out=folder, columns=columns, size_limit=1 << 16) as out:
        for _ in range(length):
            label = int(numbers.integers(0, 2))
            out.write({"picture": (numbers.random(784) + label).astype(np.float32), "label": label})


def main():
    torch.manual_seed(1)
    write("shards/train", 160)
    write("shards/val", 64)
    train_set = StreamingDataset(local="shards/train", shuffle=True, batch_size=16, num_canonical_nodes=1)
    val_set = StreamingDataset(local="shards/val", shuffle=False, batch_size=16)
    train_loader = DataLoader(train_set, batch_size=16, num_workers=2)
    val_loader = DataLoader(val_set, batch_size=16, num_workers=1)
    model = nn.Sequential(nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        model.train()
        for batch in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(batch["picture"]), batch["label"])
            loss.backward()
            optimizer.step()
            print(f"epoch {epoch}: loss {loss.item()!r}")
        model.eval()
        with torch.no_grad():
            right = sum(int((model(b["picture"]).argmax(1) == b["label"]).sum()) for b in val_loader)
        print(f"epoch {epoch}: {right} right")


if __name__ == "__main__":
    main()
