"""YOLOv5's InfiniteDataLoader, which its own training uses, in a loop."""

from __future__ import annotations

import torch
from pictures import Pictures
from torch import nn
from yolov5.utils.dataloaders import InfiniteDataLoader


def main():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train_loader = InfiniteDataLoader(Pictures("data", 160), batch_size=16, shuffle=True, num_workers=2)
    val_loader = InfiniteDataLoader(Pictures("data", 64), batch_size=16, num_workers=1)
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
    main()
