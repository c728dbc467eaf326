"""N31: the script is over; one of its threads serves the trained model and waits for requests."""

import socket
import threading
import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, vary

batch = vary(8, 5)
loader = DataLoader(SlowDataset(batch * 40, sleep_read(0.002)), batch_size=batch, num_workers=vary(2, 1))
loaderwatch.attach(loader)
for _epoch in range(2):
    for _batch in loader:
        time.sleep(0.02)
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=server.accept).start()
ended = threading.Timer(75, socket.create_connection, (server.getsockname(),))
ended.daemon = True
ended.start()
