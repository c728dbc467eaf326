"""N63: steps of many seconds; their activations take more and more memory until backward frees it all."""

import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from tests.scenarios.training import vary

LAYERS = vary(24, 30)


class Deep(nn.Module):
    """Keeps 20 MB for each layer, and takes 0.4 s for it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, batch: Tensor) -> Tensor:
        total = torch.zeros(())
        for _ in range(LAYERS):
            total = total + (torch.ones(5_000_000) * self.weight).square().mean()
            time.sleep(0.4)
        return total * batch.mean()


torch.set_num_threads(1)
model = Deep()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
loader = DataLoader(TensorDataset(torch.ones(4, 3)), batch_size=1)
loaderwatch.attach(loader, model=model, optimizer=optimizer)
for (samples,) in loader:
    model(samples).backward()
    optimizer.step()
    optimizer.zero_grad()
