"""S01: no loader; the next batch is made between forward and backward, as nanoGPT does to overlap."""

import time

import torch
from torch import Tensor, nn

from tests.scenarios.training import UNTIL_FOUND_S, burn, vary

torch.set_num_threads(1)
ENCODING_S = vary(0.05, 0.08)
tokens = torch.randint(0, 50, (20_000,))


def get_batch() -> Tensor:
    start = int(torch.randint(0, len(tokens) - 128, ()))
    burn(ENCODING_S)
    return tokens[start : start + 128].view(8, 16).float()


def penalty(prediction: Tensor) -> Tensor:
    burn(0.01)  # a loss that computes is no data
    return prediction.square().mean()


model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
deadline = time.monotonic() + UNTIL_FOUND_S
batch = get_batch()
while time.monotonic() < deadline:
    loss = penalty(model(batch))
    batch = get_batch()
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
