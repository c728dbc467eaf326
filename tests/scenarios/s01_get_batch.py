"""S01: no loader: each batch is cut from a long sequence and encoded by hand while the model waits."""

import time

import torch
from torch import Tensor, nn

from tests.scenarios.training import UNTIL_FOUND_S, burn, vary

ENCODING_S = vary(0.05, 0.08)
tokens = torch.randint(0, 50, (20_000,))


def encode(window: Tensor) -> Tensor:
    burn(ENCODING_S / 8)
    return window.float()


def get_batch() -> Tensor:
    starts = torch.randint(0, len(tokens) - 16, (8,)).tolist()
    return torch.stack([encode(tokens[start : start + 16]) for start in starts])


model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
deadline = time.monotonic() + UNTIL_FOUND_S
while time.monotonic() < deadline:
    loss = model(get_batch()).sum()
    optimizer.zero_grad()
    loss.backward()
    time.sleep(0.02)
    optimizer.step()
