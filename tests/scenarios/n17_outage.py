"""N17: the server is unreachable for twice the hang limit, or the streamer stops; the training goes on.

A process of this script forwards to the server, and then refuses connections or stops answering.
"""

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

LASTS_S = vary(12, 10)
BEGINS_S = 6.0
LINE = """
import socket, sys, threading, time

host, port, how, begins, lasts = sys.argv[1], int(sys.argv[2]), sys.argv[3], *map(float, sys.argv[4:])
open_now, here = threading.Event(), set()
open_now.set()

def pump(one, other):
    try:
        while data := one.recv(65536):
            open_now.wait()
            other.sendall(data)
    except OSError:
        pass
    for each in (one, other):
        here.discard(each)
        each.close()

def serve(listener):
    while True:
        try:
            near, _ = listener.accept()
        except OSError:
            return
        far = socket.create_connection((host, port))
        here.update((near, far))
        for pair in ((near, far), (far, near)):
            threading.Thread(target=pump, args=pair, daemon=True).start()

def listen(at):
    listener = socket.create_server(("127.0.0.1", at))
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    return listener

listener = listen(0)
at = listener.getsockname()[1]
print(at, flush=True)
time.sleep(begins)
if how == "refuses":
    for each in (listener, *here):
        try:
            each.shutdown(socket.SHUT_RDWR)  # wakes who waits in it
        except OSError:
            pass
        each.close()
elif how == "silent":
    open_now.clear()
time.sleep(lasts)
open_now.set()
if how == "refuses":
    listen(at)
time.sleep(60)
"""


def streamers() -> list[int]:
    """Pids of this run's."""
    mine = f"LOADERWATCH_DIR={os.environ['LOADERWATCH_DIR']}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            streams = entry.name.isdecimal() and b"loaderwatch.streamer" in (entry / "cmdline").read_bytes()
            if streams and mine in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def stop_streamers() -> None:
    """Stop them for as long, as a busy or swapped-out host does."""
    time.sleep(BEGINS_S)
    stopped = streamers()
    print(f"stopping {stopped}", file=sys.stderr)
    try:
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(LASTS_S)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


if __name__ == "__main__":
    how = sys.argv[1]  # "refuses", "silent", "stopped"
    address = urllib.parse.urlsplit(os.environ["LOADERWATCH_SERVER"])
    line = subprocess.Popen(
        [
            *(sys.executable, "-c", LINE),
            *(str(address.hostname), str(address.port), how, str(BEGINS_S), str(LASTS_S)),
        ],
        stdout=subprocess.PIPE,
        start_new_session=True,  # it outlives this script: the streamer has to send the rest
    )
    assert line.stdout is not None
    os.environ["LOADERWATCH_SERVER"] = f"http://127.0.0.1:{int(line.stdout.readline())}"
    loader = DataLoader(SlowDataset(100_000, sleep_read(0.002)), batch_size=vary(8, 4), num_workers=2)
    loaderwatch.attach(loader)
    if how == "stopped":
        threading.Thread(target=stop_streamers, daemon=True).start()
    # A streamer that was refused knocks again after as much as ten seconds.
    train(loader, step_s=0.05, seconds=36 if how == "refuses" else 24)
