"""N40: sequences become longer from batch to batch, as in a curriculum, and so do the steps."""

import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, vary

torch.set_num_threads(1)
WIDTH = vary(64, 96)
BATCH = 16


class Growing(Dataset[Tensor]):
    """Texts in order of their length."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> Tensor:
        return torch.randn(16 + index // (4 * BATCH), WIDTH)


model = nn.GRU(WIDTH, WIDTH, batch_first=True)
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(Growing(), batch_size=BATCH, num_workers=2, collate_fn=nn.utils.rnn.pad_sequence)
loaderwatch.attach(loader, model=model, optimizer=optimizer)
deadline = time.monotonic() + UNTIL_FOUND_S
for texts in loader:
    optimizer.zero_grad()
    model(texts)[0].square().mean().backward()
    optimizer.step()
    if time.monotonic() > deadline:
        break
