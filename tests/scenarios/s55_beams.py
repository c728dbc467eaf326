"""S55: after each short epoch a beam search over the validation set takes longer than the epoch."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, SlowDataset, burn, vary

torch.set_num_threads(1)
batch_size, sentence_s = vary(8, 5), vary(0.02, 0.03)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(
    SlowDataset(batch_size * 150), batch_size=batch_size, num_workers=1, persistent_workers=True
)
validation = DataLoader(SlowDataset(400), batch_size=40)
loaderwatch.attach(loader)
loaderwatch.attach(validation, role="eval")


def beam_search() -> None:
    """Translate the validation set, one sentence after the other."""
    model.eval()
    with torch.no_grad():
        for batch in validation:
            for sentence in batch:
                model(sentence)
                burn(sentence_s)
    model.train()


deadline = time.monotonic() + UNTIL_FOUND_S
while time.monotonic() < deadline:
    for batch in loader:
        optimizer.zero_grad()
        model(batch / 16_000).square().mean().backward()
        optimizer.step()
        time.sleep(0.03)
    beam_search()
