"""S08's sibling: each worker asks a slow server over its own connection and sometimes pauses to retry."""

import socket
import socketserver
import threading
import time

from torch.utils.data import DataLoader, get_worker_info

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

ANSWER_S = vary(0.06, 0.08)
connections: dict[int, socket.socket] = {}


class Store(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while self.request.recv(8):
            time.sleep(ANSWER_S)
            self.request.sendall(b"x" * 64)


server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Store)
server.daemon_threads = True


def read(index: int) -> None:
    worker = get_worker_info()
    assert worker is not None
    if worker.id not in connections:
        connections[worker.id] = socket.create_connection(("127.0.0.1", server.server_address[1]))
    connections[worker.id].sendall(b"x" * 8)
    connections[worker.id].recv(64)
    if index % 7 == 0:
        time.sleep(0.05)


loader = DataLoader(SlowDataset(100_000, read), batch_size=8, num_workers=vary(8, 6))
loaderwatch.attach(loader)
batches = iter(loader)  # the workers are forked before there is a thread
threading.Thread(target=server.serve_forever, daemon=True).start()
train(batches, step_s=0.02)
