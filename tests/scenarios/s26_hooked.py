"""S26: every ten steps another set of hooks is registered on the model, and none is ever removed."""

import argparse
import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, vary

parser = argparse.ArgumentParser()
parser.add_argument("--bank", action="store_true", help="the model keeps what it has seen, instead of hooks")
given = parser.parse_args()

torch.set_num_threads(1)
WIDTH = vary(256, 320)
histograms: dict[str, Tensor] = {}


class Encoder(nn.Module):
    """Says how far each row is from the nearest prototype."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 64))
        self.bank: list[Tensor] = []

    def forward(self, inputs: Tensor) -> Tensor:
        """Return each row's own size, less its likeness to what was seen before."""
        keys: Tensor = self.layers(inputs)
        likeness = torch.zeros(len(keys))
        with torch.no_grad():
            for prototype in self.bank:
                likeness = torch.maximum(likeness, keys @ prototype)
        if given.bank:
            self.bank.append(keys.detach().mean(0))
        return keys.square().mean(1) - likeness


def watch_activations(model: nn.Module) -> None:
    """Keep a histogram of what each layer gives in this step."""

    def keep_histogram(module: nn.Module, inputs: object, output: Tensor) -> None:
        flat = output.detach().flatten()
        histograms[type(module).__name__] = torch.histc(flat, bins=64)
        flat.sort()

    for module in model.modules():
        if isinstance(module, nn.Linear | nn.ReLU):
            module.register_forward_hook(keep_histogram)


features = torch.randn(20_000, 32)
model = Encoder()
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(features), batch_size=128, shuffle=True, num_workers=2, drop_last=True)
loaderwatch.attach(loader)
deadline, steps = time.monotonic() + UNTIL_FOUND_S, 0
while time.monotonic() < deadline:
    for (inputs,) in loader:
        if steps % 10 == 0 and not given.bank:
            watch_activations(model)
        optimizer.zero_grad()
        model(inputs).mean().backward()
        optimizer.step()
        steps += 1
        if time.monotonic() > deadline:
            break
