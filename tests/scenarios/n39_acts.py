"""N39: no loader: an agent's network chooses eight moves, and is trained once on what was seen."""

import time

import torch
from torch import nn

from tests.scenarios.training import UNTIL_FOUND_S, vary

PLAYERS = vary(16, 24)
MOVES = 8

torch.set_num_threads(1)
net = nn.Sequential(nn.Conv2d(1, 16, 5), nn.ReLU(), nn.Conv2d(16, 16, 5), nn.Flatten(), nn.LazyLinear(4))
net(torch.zeros(1, 1, 32, 32))
optimizer = torch.optim.Adam(net.parameters())
seen = torch.randn(PLAYERS, 1, 32, 32)
memory: list[torch.Tensor] = []
deadline = time.monotonic() + UNTIL_FOUND_S
while time.monotonic() < deadline:
    for _ in range(MOVES):
        with torch.no_grad():
            moves = net(seen).argmax(1)
        seen = 0.9 * seen + 0.1 * torch.randn_like(seen) + 0.01 * moves[:, None, None, None]
        memory = [*memory[-100:], seen]
    past = memory[int(torch.randint(len(memory), ()))]
    loss = net(past).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
