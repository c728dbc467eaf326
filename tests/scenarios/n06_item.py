"""N06: every step asks for the loss, prints it and waits for it, as a progress bar does."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, vary

torch.set_num_threads(1)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(SlowDataset(100_000, sleep_read(0.002)), batch_size=vary(8, 4), num_workers=vary(2, 3))
loaderwatch.attach(loader, model=model, optimizer=optimizer)
deadline = time.monotonic() + 14
for batch in loader:
    loss = model(batch).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.05)  # where a GPU would be waited for
    print(f"\rloss {loss.item():.3f}", end="", flush=True)
    if time.monotonic() > deadline:
        break
