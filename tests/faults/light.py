"""Ranks without torch: processes that write rings as ``attach`` does, with books like ``training.py``.

For faults that need many ranks, or concern only what reads the rings. Run as a script it forks a process per
rank; ``ring_writer.py`` is the same for a single rank.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from loaderwatch.core.facts import LoaderInfo, ProcessInfo
from loaderwatch.core.files import write_atomically
from loaderwatch.core.records import RECORD_FIELDS, UNKNOWN, Phase, RecordKind
from loaderwatch.core.ring import MAIN_CAPACITY, RingIdentity, RingStatus, RingWriter
from tests.faults.cluster import RUN, Cluster, Host

PLAN: Final[dict[str, Any]] = {
    "folder": "",  # of the rings
    "books": "",
    "ranks": [0],
    "world_size": 1,
    "seconds": 900.0,  # or until a file "enough" lies with the books
    "period_s": 0.01,
    "finish": True,  # says goodbye
}


def start_light(host: Host, run: str = RUN, *, streamers: int = 1, **plan: Any) -> subprocess.Popen[bytes]:
    """Start ranks on a host, and streamers as ``attach`` would."""
    (host.books / run).mkdir(exist_ok=True)
    (host.books / run / "enough").unlink(missing_ok=True)
    plan = {"folder": str(host.settings.rings_dir / run), "books": str(host.books / run), **plan}
    with (host.data_dir / "job.log").open("ab") as log:
        started = subprocess.Popen(
            _on(host, sys.executable, "-m", "tests.faults.light", json.dumps(plan)),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=host.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
            start_new_session=True,
        )
    host.trainers.append(started)
    for _ in range(streamers):
        start_streamer(host, run)
    return started


def start_streamer(host: Host, run: str = RUN) -> subprocess.Popen[bytes]:
    """A streamer of a run."""
    host.settings.logs_dir.mkdir(parents=True, exist_ok=True)
    with (host.settings.logs_dir / f"streamer-{run}.log").open("ab") as log:
        started = subprocess.Popen(
            _on(host, sys.executable, "-m", "loaderwatch.streamer", "--run-id", run, "--run-name", run),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=host.environ,
            start_new_session=True,
        )
    host.trainers.append(started)
    return started


def states_of_ranks(cluster: Cluster, run: str = RUN) -> list[str]:
    """What the page says of each rank; nothing while the server does not know the run."""
    if run not in [each["run_id"] for each in cluster.server.get("/runs")]:
        return []
    return [rank["state"] for rank in cluster.server.get(f"/runs/{run}/summary")["ranks"]]


def _on(host: Host, *command: str) -> list[str]:
    """The command under the host's name."""
    if host.name is None:
        return list(command)
    return ["unshare", "--uts", "sh", "-c", f'hostname {host.name} && exec "$@"', "sh", *command]


def open_ring(folder: Path, rank: int, world_size: int) -> RingWriter:
    """The files of a training process, as the agent makes them."""
    pid, path = os.getpid(), folder / f"main-{os.getpid()}.json"
    loaders = [LoaderInfo(loader=0, name="train", role="train", class_name="DataLoader", num_workers=0)]
    info = ProcessInfo(
        pid=pid, rank=rank, local_rank=rank, world_size=world_size, started_ns=time.time_ns(), loaders=loaders
    )
    ring = RingWriter(
        path.with_suffix(".ring"), RingIdentity(pid, pid, -1, -1, time.monotonic_ns()), MAIN_CAPACITY
    )
    write_atomically(path, msgspec.json.encode(info))
    return ring


def write(plan: dict[str, Any], rank: int) -> None:
    """One rank: a record, a line, a pause, again and again."""
    ring = open_ring(Path(plan["folder"]), rank, plan["world_size"])
    ring.set_status(RingStatus(False, 0, 0, False))
    book = os.open(
        Path(plan["books"]) / f"train-{rank}-{os.getpid()}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
    )
    os.write(book, b"open -1\n")
    deadline, batch = time.monotonic() + plan["seconds"], 0
    enough = Path(plan["books"]) / "enough"
    while time.monotonic() < deadline and not enough.exists():
        now = time.monotonic_ns()
        fields = dict.fromkeys(RECORD_FIELDS[RecordKind.STEP], 0)
        step_ns = int(plan["period_s"] * 1e9)
        fields.update(batch=batch, step=batch, request_ns=now, wait_ns=100_000, step_ns=step_ns)
        fields.update(optimizer_steps=UNKNOWN)
        os.write(book, f"got 0 {batch} {os.getpid()} 0\n".encode())
        ring.append(RecordKind.STEP, **fields)
        ring.set_span(
            Phase.STEP, now, loader=0, epoch=0, batch=batch, step=batch, batches=batch + 1, steps=batch + 1
        )
        batch += 1
        os.write(book, f"ask 0 {batch}\n".encode())
        time.sleep(plan["period_s"])
    if plan["finish"]:
        os.write(book, b"bye\n")
        ring.set_status(RingStatus(True, 0, 0, False))


def main() -> None:
    """See the module's text."""
    plan = PLAN | json.loads(sys.argv[1])
    assert set(plan) == set(PLAN), sorted(set(plan) - set(PLAN))
    Path(plan["folder"]).mkdir(parents=True, exist_ok=True, mode=0o700)
    children: list[int] = []
    ranks: Sequence[int] = plan["ranks"]
    for rank in ranks:
        pid = os.fork()
        if pid == 0:
            write(plan, rank)
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
