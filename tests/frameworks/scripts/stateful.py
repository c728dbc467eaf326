"""torchdata's StatefulDataLoader: stopped within an epoch and resumed there by a new loader."""

from __future__ import annotations

import torch
from pictures import Pictures
from torch import nn
from torchdata.stateful_dataloader import StatefulDataLoader


def make_loader():
    return StatefulDataLoader(Pictures("data", 160), batch_size=16, shuffle=True, num_workers=2)


def main():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(pictures, labels):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(pictures), labels)
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item()!r}")

    loader = make_loader()
    for pictures, labels in loader:
        step(pictures, labels)
    for number, (pictures, labels) in enumerate(loader, 1):
        step(pictures, labels)
        if number == 4:
            state = loader.state_dict()
            break
    loader = make_loader()
    loader.load_state_dict(state)
    for pictures, labels in loader:
        step(pictures, labels)


if __name__ == "__main__":
    main()
