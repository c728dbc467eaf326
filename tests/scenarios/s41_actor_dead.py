"""S41: no loader; a thread that plays ends with an error, and the learner waits for its data forever."""

import queue
import random
import threading
from collections import deque

import torch
from torch import nn

from tests.scenarios.training import vary

PLAYED = vary(1500, 2400)
seen: "queue.Queue[list[list[float]]]" = queue.Queue(maxsize=4)


def play() -> None:
    levels = {0: 0.1, 1: 0.2, 2: 0.3}
    for played in range(100_000):
        speed = levels[played // (PLAYED // 3)]
        seen.put([[random.random() * speed for _ in range(8)] for _ in range(4)])


def learn() -> None:
    replay: deque[list[float]] = deque(maxlen=2000)
    model = nn.Linear(8, 2)
    optimizer = torch.optim.Adam(model.parameters())
    while True:
        replay.extend(seen.get())
        for _ in range(4):
            batch = torch.tensor(random.choices(replay, k=16))
            loss = model(batch).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


threading.Thread(target=play, name="actor", daemon=True).start()
learn()
