"""Hugging Face datasets, streamed: parquet files, read by two workers and shuffled in a buffer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from datasets import Dataset, load_dataset
from torch import nn
from torch.utils.data import DataLoader


def write(folder, files):
    Path(folder).mkdir()
    numbers = np.random.default_rng(files)
    for number in range(files):
        labels = numbers.integers(0, 2, 40)
        pictures = numbers.random((40, 784)).astype(np.float32) + labels[:, None].astype(np.float32)
        rows = Dataset.from_dict({"picture": pictures.tolist(), "label": labels.tolist()})
        rows.to_parquet(f"{folder}/{number}.parquet")


def main():
    torch.manual_seed(1)
    write("train", 4)
    write("val", 2)
    train_set = load_dataset("parquet", data_files="train/*.parquet", split="train", streaming=True)
    train_set = train_set.shuffle(seed=1, buffer_size=40).with_format("torch")
    val_set = load_dataset("parquet", data_files="val/*.parquet", split="train", streaming=True)
    train_loader = DataLoader(train_set, batch_size=16, num_workers=2)
    val_loader = DataLoader(val_set.with_format("torch"), batch_size=16, num_workers=1)
    model = nn.Sequential(nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        train_set.set_epoch(epoch)
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
