"""S26: after each step predicted and right texts are compared, pair by pair, in Python."""

import time
from collections import Counter

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, vary

torch.set_num_threads(1)
ROWS = vary(48, 64)
LENGTH = 24
LETTERS = 28


def overlap(one: list[int], other: list[int]) -> float:
    """Common runs of up to four letters, as a share."""
    shares = []
    for size in range(1, 5):
        mine, right = (
            Counter(tuple(text[at : at + size]) for at in range(len(text) - size + 1))
            for text in (one, other)
        )
        shares.append(sum((mine & right).values()) / max(1, sum(right.values())))
    return sum(shares) / len(shares)


texts = torch.randint(0, LETTERS, (20_000, LENGTH))
model = nn.Sequential(nn.Embedding(LETTERS, 64), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, LETTERS))
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(texts), batch_size=ROWS, shuffle=True, num_workers=2)
loaderwatch.attach(loader, model=model, optimizer=optimizer)
deadline = time.monotonic() + UNTIL_FOUND_S
best = 0.0
while time.monotonic() < deadline:
    for (letters,) in loader:
        optimizer.zero_grad()
        guessed = model(letters)
        nn.functional.cross_entropy(  # type: ignore[no-untyped-call]
            guessed.flatten(0, 1), letters.flatten()
        ).backward()
        optimizer.step()
        pairs = zip(guessed.argmax(2).tolist(), letters.tolist(), strict=True)
        best = max(best, sum(overlap(*pair) for pair in pairs) / len(letters))
        if time.monotonic() > deadline:
            break
