"""S01: no loader, and between steps a line for a tracker that accepts every connection and never answers."""

import contextlib
import socket
import time

import torch
from torch import nn

from tests.scenarios.training import UNTIL_FOUND_S, vary

PATIENCE_S = vary(2.0, 3.0)
EVERY = vary(20, 30)
tracker = socket.create_server(("127.0.0.1", 0))


def log(value: float) -> None:
    with contextlib.suppress(TimeoutError), socket.create_connection(tracker.getsockname()) as connection:
        connection.settimeout(PATIENCE_S)
        connection.sendall(f"loss {value}\n".encode())
        connection.recv(100)


model = nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
deadline = time.monotonic() + UNTIL_FOUND_S
step = 0
while time.monotonic() < deadline:
    loss = model(torch.randn(8, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    time.sleep(0.03)
    optimizer.step()
    step += 1
    if step > 100 and step % EVERY == 0:
        log(loss.item())
