"""N35: no loader; the loop itself sleeps after each step, so that the machine stays free for others."""

import time

import torch
from torch import nn

from tests.scenarios.training import vary

PAUSE_S = vary(0.03, 0.05)


def main() -> None:
    data = torch.randn(1000, 16)
    generator, critic = nn.Linear(16, 16), nn.Linear(16, 1)
    first = torch.optim.Adam(critic.parameters())
    second = torch.optim.Adam(generator.parameters())
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        real = data[torch.randint(0, 1000, (32,))]
        first.zero_grad()
        (critic(real).mean() - critic(generator(real).detach()).mean()).backward()
        first.step()
        second.zero_grad()
        critic(generator(real)).mean().backward()
        second.step()
        time.sleep(PAUSE_S)


main()
