"""Reinforcement learning: play, remember, and learn from a DataLoader over the growing memory."""

from __future__ import annotations

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

GOAL = 5.0


class Walk:
    """A line on which to find the place that pays."""

    def reset(self):
        self.place, self.moves = 0.0, 0
        return self.place

    def step(self, action):
        self.place += 1.0 if action else -1.0
        self.moves += 1
        return self.place, -abs(self.place - GOAL), self.moves == 20


class Memory(IterableDataset):
    """Transitions at random, without end, as they are there at that moment."""

    def __init__(self):
        self.transitions = []

    def __iter__(self):
        while True:
            yield random.choice(self.transitions)


def main():
    random.seed(1)
    torch.manual_seed(1)
    walk, memory = Walk(), Memory()
    values = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(values.parameters(), lr=1e-2)
    batches = None
    for episode in range(6):
        place, done = walk.reset(), False
        while not done:
            with torch.no_grad():
                best = int(values(torch.tensor([[place]])).argmax())
            action = random.randrange(2) if random.random() < 0.3 else best
            then, reward, done = walk.step(action)
            memory.transitions.append((torch.tensor([place]), action, reward, torch.tensor([then])))
            place = then
            if len(memory.transitions) < 40:
                continue
            if batches is None:
                batches = iter(DataLoader(memory, batch_size=16))
            places, actions, rewards, thens = next(batches)
            with torch.no_grad():
                wanted = rewards.float() + 0.9 * values(thens).max(dim=1).values
            estimated = values(places).gather(1, actions[:, None]).squeeze(1)
            loss = nn.functional.mse_loss(estimated, wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"episode {episode}: loss {loss.item()!r}")


if __name__ == "__main__":
    main()
