"""N36: no loader: a control loop at a fixed rate, which sleeps until the next tick if it is early."""

import time

import torch
from torch import nn

from tests.scenarios.training import vary

PERIOD_S = vary(0.05, 0.08)


class Ticks:
    """Gives the loop its rate."""

    def __init__(self) -> None:
        self.next = time.perf_counter()

    def wait(self) -> None:
        """Sleep until the next tick."""
        self.next += PERIOD_S
        time.sleep(max(0.0, self.next - time.perf_counter()))


def main() -> None:
    policy = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 4))
    optimizer = torch.optim.Adam(policy.parameters())
    ticks = Ticks()
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        seen = torch.randn(32 + int(torch.randint(0, 400, (1,))), 16)
        optimizer.zero_grad()
        policy(seen).square().mean().backward()
        optimizer.step()
        ticks.wait()


main()
