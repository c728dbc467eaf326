"""S26: each step posts its metrics to a server in another region, which takes longer than the step."""

import json
import multiprocessing
import time
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

round_trip_s = vary(0.09, 0.12)


class Board(BaseHTTPRequestHandler):
    """Takes a point, far away."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(round_trip_s)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


server = HTTPServer(("127.0.0.1", 0), Board)
multiprocessing.get_context("fork").Process(target=server.serve_forever, daemon=True).start()
board = HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)


def post_metrics(step: int) -> None:
    board.request("POST", "/points", json.dumps({"step": step, "loss": 1 / (step + 1)}))
    board.getresponse().read()


loader = DataLoader(SlowDataset(100_000, sleep_read(0.002)), batch_size=8, num_workers=2)
loaderwatch.attach(loader)
train(loader, step_s=0.04, each_step=post_metrics)
