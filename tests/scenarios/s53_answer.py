"""S53: without a loader, the script asks a server of its own for each batch, and one answer never comes."""

import socket
import threading
import time

import torch
from torch import nn

from tests.scenarios.training import vary

ANSWERED = vary(200, 320)
ours, theirs = socket.socketpair()


def serve() -> None:
    for _ in range(ANSWERED):
        theirs.recv(1)
        theirs.sendall(bytes(range(16)))
    threading.Event().wait()


def ask() -> torch.Tensor:
    ours.sendall(b"?")
    return torch.tensor(list(ours.recv(16)), dtype=torch.float32)


def main() -> None:
    model = nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for _ in range(1_000_000):
        batch = ask()
        model(batch).sum().backward()
        time.sleep(0.01)
        optimizer.step()
        optimizer.zero_grad()


threading.Thread(target=serve, daemon=True).start()
main()
