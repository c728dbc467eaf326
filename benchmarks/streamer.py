"""The streamer's own cost: 8 ranks × 8 workers at 20 steps/s, real rings, real processes, a real receiver.

    python benchmarks/streamer.py [--seconds 20] [--ranks 8] [--workers 8] [--rate 20] [--gpus 8] [--json]

CPU and memory are those of the streamer process, from /proc, after a warm-up. Every rank and worker is a
sleeping process; one load generator writes all rings. With a C compiler a stand-in answers for NVML, so that
the cost of ten samples a second is included.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec

from loaderwatch.core.config import load_settings
from loaderwatch.core.facts import LoaderInfo, ProcessInfo
from loaderwatch.core.records import RECORD_FIELDS, UNKNOWN, Phase, RecordKind
from loaderwatch.core.ring import MAIN_CAPACITY, WORKER_CAPACITY, RingIdentity, RingWriter
from loaderwatch.core.server_trust import proofs
from loaderwatch.core.wire import decode, row_count, split
from loaderwatch.demo.stand_in import NoCompiler, SimulatedGpu, build, environment, write_script
from loaderwatch.streamer.samplers.procfs import ProcessFiles

BUDGET_CPU_RATIO = 0.03
BUDGET_RSS_BYTES = 80e6
WARM_UP_S = 5.0
TOKEN = "the token of the bench"


class Load:
    """The rings of a host's ranks and workers, written by one thread."""

    def __init__(self, folder: Path, ranks: int, workers: int, pids: list[int]) -> None:
        folder.mkdir(parents=True)
        now = time.monotonic_ns()
        free = iter(pids)
        self.mains: list[RingWriter] = []
        self.workers: list[list[RingWriter]] = []
        for rank in range(ranks):
            pid = next(free)
            info = ProcessInfo(
                pid=pid,
                rank=rank,
                local_rank=rank,
                world_size=ranks,
                started_ns=time.time_ns(),
                name="train.py",
                argv=["train.py", "--data", "/data/imagenet", "--epochs", "90"],
                gpu_uuid=f"GPU-{rank}",
                loaders=[
                    LoaderInfo(
                        loader=0, name="train", role="train", class_name="DataLoader", num_workers=workers
                    )
                ],
            )
            (folder / f"main-{pid}.json").write_bytes(msgspec.json.encode(info))
            identity = RingIdentity(pid, pid, -1, -1, now)
            self.mains.append(RingWriter(folder / f"main-{pid}.ring", identity, MAIN_CAPACITY))
            own = []
            for worker in range(workers):
                worker_pid = next(free)
                path = folder / f"worker-{pid}-0-{worker}-{worker_pid}.ring"
                own.append(RingWriter(path, RingIdentity(worker_pid, pid, 0, worker, now), WORKER_CAPACITY))
            self.workers.append(own)

    def write(self, rate: float, stop: threading.Event) -> None:
        """A step of every rank ``rate`` times a second, and the fetch of the worker whose turn it is."""
        step = dict.fromkeys(RECORD_FIELDS[RecordKind.STEP], 0)
        step.update(wait_ns=20_000_000, step_ns=30_000_000, optimizer_steps=UNKNOWN)
        fetch = dict.fromkeys(RECORD_FIELDS[RecordKind.FETCH], 0)
        fetch["fetch_ns"] = 350_000_000
        batch = 0
        deadline = time.monotonic()
        while not stop.is_set():
            now = time.monotonic_ns()
            for main, workers in zip(self.mains, self.workers, strict=True):
                step.update(batch=batch, step=batch, request_ns=now)
                main.append(RecordKind.STEP, **step)
                main.set_span(Phase.STEP, now, 0, 0, batch, batch, batches=batch, steps=batch)
                if workers:
                    turn = batch % len(workers)
                    fetch.update(worker=turn, ordinal=batch, request_ns=now)
                    workers[turn].append(RecordKind.FETCH, **fetch)
                    workers[turn].set_span(Phase.FETCH, now, 0, sample_index=batch, sample_since_ns=now)
            batch += 1
            deadline += 1 / rate
            stop.wait(max(deadline - time.monotonic(), 0))


class Received:
    """A receiver that counts."""

    def __init__(self) -> None:
        self.rows = self.bytes = self.envelopes = 0
        received = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                (challenge,) = parse_qs(urlsplit(self.path).query)["challenge"]
                self._reply(msgspec.json.encode(proofs([TOKEN], challenge)))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                for envelope in map(decode, split(body)):
                    received.rows += sum(row_count(table) for table in envelope.tables.values())
                    received.envelopes += 1
                received.bytes += len(body)
                self._reply(b'{"stored_seq": %d}' % envelope.seq)

            def _reply(self, answer: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


def simulate_gpus(folder: Path, count: int, mains: list[int]) -> dict[str, str]:
    """The environment with ``count`` simulated GPUs; empty without a compiler."""
    if not count:
        return {}
    try:
        library = build(folder)
    except NoCompiler as reason:
        print(f"no simulated GPUs: {reason}", file=sys.stderr)
        return {}
    script = folder / "script"
    gpus = [
        SimulatedGpu(f"GPU-{index}", util_percent=60, pids=[pid])
        for index, pid in zip(range(count), mains, strict=False)
    ]
    write_script(script, gpus)
    return environment(library, script)


def cpu_ns(pid: int) -> int:
    """CPU time so far, all threads; from the scheduler, since the tick counts in stat miss short bursts."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks)


def measure(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Run the load and the streamer, and read the streamer's cost."""
    received = Received()
    count = options.ranks * (1 + options.workers)
    sleepers = [subprocess.Popen(["sleep", "3600"], start_new_session=True) for _ in range(count)]
    pids = [sleeper.pid for sleeper in sleepers]
    mains = pids[:: 1 + options.workers]
    environ = {
        **os.environ,
        "LOADERWATCH_DIR": str(folder / "data"),
        "LOADERWATCH_SERVER": received.url,
        "LOADERWATCH_TOKEN": TOKEN,
    }
    environ |= simulate_gpus(folder / "nvml", options.gpus, mains)
    settings = load_settings(environ)
    rings = settings.rings_dir / "bench"
    streamer = None
    stop = threading.Event()
    try:
        load = Load(rings, options.ranks, options.workers, pids)
        writer = threading.Thread(target=load.write, args=(options.rate, stop), daemon=True)
        writer.start()
        with (folder / "streamer.log").open("wb") as log:
            streamer = subprocess.Popen(
                [sys.executable, "-m", "loaderwatch.streamer", "--run-id", "bench", "--run-name", "bench"],
                env=environ,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        time.sleep(WARM_UP_S)
        files = ProcessFiles(streamer.pid)
        rows, size, began, used = received.rows, received.bytes, time.monotonic(), cpu_ns(streamer.pid)
        time.sleep(options.seconds)
        last, seconds = files.stat(), time.monotonic() - began
        if last is None:
            raise SystemExit("the streamer ended: " + (folder / "streamer.log").read_text()[-2000:])
        return {
            "cpu_ratio": (cpu_ns(streamer.pid) - used) / 1e9 / seconds,
            "rss_bytes": last.rss_bytes,
            "rows_per_s": (received.rows - rows) / seconds,
            "bytes_per_s": (received.bytes - size) / seconds,
        }
    finally:
        stop.set()
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
        if streamer is not None:
            try:
                streamer.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(streamer.pid, signal.SIGKILL)
                streamer.wait()
        received.server.shutdown()
        received.server.server_close()
        shutil.rmtree(settings.rings_dir, ignore_errors=True)


def main() -> None:
    """Print a table and a JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="loaderwatch-bench-") as folder:
        result = measure(Path(folder), options)
    if not options.json:
        print(
            f"{options.ranks} ranks x {options.workers} workers, {options.rate:g} steps/s,"
            f" {options.gpus} GPUs"
        )
        print(f"  CPU of one core   {result['cpu_ratio']:8.2%}   budget {BUDGET_CPU_RATIO:.0%}")
        print(
            f"  resident memory   {result['rss_bytes'] / 1e6:5.1f} MB   budget {BUDGET_RSS_BYTES / 1e6:.0f}"
            " MB"
        )
        print(f"  rows              {result['rows_per_s']:6.0f}/s")
        print(f"  sent              {result['bytes_per_s'] / 1e3:5.0f} kB/s")
    print(json.dumps({"benchmark": "streamer", **result}))


if __name__ == "__main__":
    main()
