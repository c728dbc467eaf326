"""A process that writes rings like a training process, without torch: ``python ring_writer.py '{json}'``.

Keys: folder, rank, steps (-1: until killed, or until the file ``until`` exists), period_s, finish, workers,
hang (leave a WAIT span open and sleep), signal (register faulthandler), loader.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
from pathlib import Path

import msgspec

from loaderwatch.core.facts import LoaderInfo, ProcessInfo
from loaderwatch.core.files import write_atomically
from loaderwatch.core.records import RECORD_FIELDS, UNKNOWN, Phase, RecordKind
from loaderwatch.core.ring import MAIN_CAPACITY, WORKER_CAPACITY, RingIdentity, RingStatus, RingWriter


def open_rings(folder: Path, rank: int, workers: int, pid: int | None = None) -> list[RingWriter]:
    """The main ring and a ring per worker, as the agent names them; workers are this process's own pid."""
    pid = pid or os.getpid()
    folder.mkdir(parents=True, exist_ok=True)
    now = time.monotonic_ns()
    info = ProcessInfo(
        pid=pid,
        rank=rank,
        local_rank=rank,
        world_size=1,
        started_ns=time.time_ns(),
        name="train.py",
        loaders=[
            LoaderInfo(loader=0, name="train", role="train", class_name="DataLoader", num_workers=workers)
        ],
    )
    write_atomically(folder / f"main-{pid}.json", msgspec.json.encode(info))
    rings = [RingWriter(folder / f"main-{pid}.ring", RingIdentity(pid, pid, -1, -1, now), MAIN_CAPACITY)]
    for worker in range(workers):
        path = folder / f"worker-{pid}-0-{worker}-{pid}.ring"
        rings.append(RingWriter(path, RingIdentity(pid, pid, 0, worker, now), WORKER_CAPACITY))
    return rings


def write_step(ring: RingWriter, batch: int, wait_ns: int = 1_000_000, step_ns: int = 2_000_000) -> None:
    """One STEP record and the span after it."""
    now = time.monotonic_ns()
    fields = dict.fromkeys(RECORD_FIELDS[RecordKind.STEP], 0)
    fields.update(batch=batch, step=batch, request_ns=now, wait_ns=wait_ns, step_ns=step_ns)
    fields.update(optimizer_steps=UNKNOWN)
    ring.append(RecordKind.STEP, **fields)
    ring.set_span(
        Phase.STEP, now, loader=0, epoch=0, batch=batch, step=batch, batches=batch + 1, steps=batch + 1
    )


def blocked_here(seconds: float) -> None:
    """The line that a stack must show."""
    time.sleep(seconds)


def main() -> None:
    """See the module's text."""
    want = json.loads(sys.argv[1])
    folder = Path(want["folder"])
    rings = open_rings(folder, want.get("rank", 0), want.get("workers", 0))
    ring = rings[0]
    number = 0
    if want.get("signal"):
        number = signal.SIGRTMIN + 7
        if want["signal"] != "lie":
            stack = (folder / f"main-{os.getpid()}.stack").open("ab")
            faulthandler.register(number, file=stack, all_threads=True)
    ring.set_status(RingStatus(False, number, 0, False))
    print(os.getpid(), flush=True)
    batch = 0
    while want["steps"] < 0 or batch < want["steps"]:
        if "until" in want and Path(want["until"]).exists():
            break
        write_step(ring, batch)
        batch += 1
        if want.get("period_s"):
            time.sleep(want["period_s"])
    print("written", flush=True)
    if want.get("hang"):
        since = time.monotonic_ns() - int(want.get("since_s", 0) * 1e9)
        ring.set_span(Phase.WAIT, since, loader=0, epoch=0, batch=batch, awaited_worker=0)
        blocked_here(want["hang"])
    if want.get("finish"):
        ring.set_status(RingStatus(True, 0, 0, False))


if __name__ == "__main__":
    main()
