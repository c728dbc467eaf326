"""Real processes for fault tests: a server, and hosts with trainings and their streamers."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from loaderwatch.core.config import load_settings
from loaderwatch.server.recordings.outgoing_run import of_store
from loaderwatch.server.store.clickhouse import ClickHouseStore
from loaderwatch.server.store.clickhouse.address import parse_address
from loaderwatch.server.store.duckdb import DuckDBStore
from tests.fakes import streaming
from tests.fakes.ports import next_free_port
from tests.fakes.streaming import kill
from tests.faults.ledger import Balance, assert_balanced
from tests.waiting import PATIENCE_S

TRAINING: Final = Path(__file__).with_name("training.py")
RUN: Final = "run1"
BUSY_S: Final = PATIENCE_S
"""What has not come by then never comes, on any machine. Promised times have limits of their own."""


class Server:
    """``loaderwatch serve`` on a port of its own, which it keeps when it is started again."""

    def __init__(self, data_dir: Path, port: int | None = None, store: str | None = None) -> None:
        self.data_dir = data_dir
        self.store = store  # the address of a ClickHouse database; None: files
        self.port = port or next_free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the process that was started last."""
        assert self.process is not None
        return self.process.pid

    def start(self, *, wait: bool = True, **environ: str) -> None:
        """Start it; with ``wait`` return when it answers."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith("LOADERWATCH_")} | environ
        command = [
            sys.executable,
            "-m",
            "loaderwatch",
            "serve",
            "--data-dir",
            str(self.data_dir),
            "--port",
            str(self.port),
            *(() if self.store is None else ("--store", self.store)),
        ]
        with (self.data_dir / "server.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=env, start_new_session=True)
        if wait:
            wait_for(self.answers)

    def answers(self) -> bool:
        """Whether it is there."""
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def token(self, which: str) -> str:
        """``agent`` or ``viewer``."""
        return str(json.loads((self.data_dir / "token.json").read_text())[which])

    def get(self, path: str) -> Any:
        """JSON of an API path, as a viewer."""
        headers = {"authorization": f"Bearer {self.token('viewer')}"}
        request = urllib.request.Request(f"{self.url}/api/v1{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=BUSY_S) as answer:
            return json.load(answer)

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            kill(self.process.pid)
            self.process.wait(BUSY_S)

    def stop(self) -> None:
        """SIGTERM, and wait until it has ended in order."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(BUSY_S)


class Host:
    """A machine: a LOADERWATCH_DIR, and with ``name`` its own host name (a UTS namespace; needs root)."""

    def __init__(self, data_dir: Path, books: Path, name: str | None = None, **environ: str) -> None:
        self.data_dir = data_dir
        self.books = books
        self.name = name
        env = {k: v for k, v in os.environ.items() if not k.startswith("LOADERWATCH_")}
        self.environ = env | {"LOADERWATCH_DIR": str(data_dir)} | environ
        self.settings = load_settings(self.environ)
        self.trainers: list[subprocess.Popen[bytes]] = []
        for folder in (data_dir, books):
            folder.mkdir(parents=True, exist_ok=True)

    def train(
        self, run: str = RUN, *, ranks: Sequence[int] = (0,), world_size: int = 1, port: int = 0, **plan: Any
    ) -> None:
        """Start a rank each; ``plan`` as in ``training.PLAN``. Their output goes into ``job.log``."""
        books = self.books / run
        books.mkdir(exist_ok=True)
        env = self.environ | {"LOADERWATCH_RUN": run}
        command = [sys.executable, str(TRAINING), json.dumps({"books": str(books), **plan})]
        if self.name is not None:
            command = ["unshare", "--uts", "sh", "-c", f'hostname {self.name} && exec "$@"', "sh", *command]
        for rank in ranks:
            if world_size > 1:
                env = env | {
                    "RANK": str(rank),
                    "LOCAL_RANK": str(rank),
                    "WORLD_SIZE": str(world_size),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                }
            with (self.data_dir / "job.log").open("ab") as log:
                self.trainers.append(
                    subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        env=env,
                        start_new_session=True,
                    )
                )

    def wait_for_steps(self, steps: int = 5, run: str = RUN) -> None:
        """Until a training has delivered so many batches."""
        wait_for(lambda: self.steps(run) >= steps)

    def steps(self, run: str = RUN) -> int:
        """Batches delivered so far, as its books say."""
        return sum(path.read_text().count("got ") for path in (self.books / run).glob("train-*.log"))

    def workers(self, run: str = RUN) -> list[int]:
        """DataLoader workers that live and have read something."""
        pids = [int(path.stem.split("-")[2]) for path in (self.books / run).glob("fetch-*.log")]
        return [pid for pid in pids if lives(pid) and pid not in {t.pid for t in self.trainers}]

    def streamers(self, run: str = "") -> list[int]:
        """Living streamers of this host (of one run)."""
        return [pid for pid in self.pids("loaderwatch.streamer") if not run or run in command_of(pid)]

    def active(self, run: str = RUN) -> int | None:
        """The streamer that streams, as the kernel's list of locks says."""
        return holder(self.settings.rings_dir / run / "streamer.lock")

    def standby(self, run: str = RUN) -> int | None:
        """The one that waits to take over."""
        return holder(self.settings.rings_dir / run / "standby.lock")

    def local_server(self) -> int | None:
        """The pid of the server that a streamer of this host started."""
        return next(iter(self.pids("loaderwatch serve --data-dir")), None)

    def pids(self, of: str = "") -> list[int]:
        """Living processes with this LOADERWATCH_DIR, and with ``of`` in their command line."""
        return [process.pid for process in streaming.processes_of(self.data_dir, of)]

    def waiting(self) -> list[Path]:
        """What has not reached the server: envelopes on disk, and rings."""
        return [*self.settings.outbox_dir.glob("*/*/*.lwe"), *self.settings.rings_dir.glob("*/*.ring")]

    def log(self) -> str:
        """What the job and its helpers said."""
        paths = [self.data_dir / "job.log", *sorted(self.settings.logs_dir.glob("*.log"))]
        return "".join(f"--- {path.name}\n{path.read_text()}" for path in paths if path.exists())

    def end(self) -> None:
        """SIGKILL for everybody here, and its shared memory removed."""
        for pid in self.pids():
            kill(pid)
        for trainer in self.trainers:
            kill(trainer.pid)
            trainer.wait(BUSY_S)
        shutil.rmtree(self.settings.rings_dir, ignore_errors=True)


class Cluster:
    """``with Cluster(folder, dice) as it``: server ``it.server`` and a host ``it.host`` that sends to it."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.folder = folder
        self.dice = dice
        self.server = Server(folder / "server")
        self.hosts: list[Host] = []

    def add_host(
        self,
        name: str | None = None,
        *,
        own_server: bool = False,
        data_dir: Path | None = None,
        **environ: str,
    ) -> Host:
        """One more machine. Its streamer sends to ``server``, or with ``own_server`` starts its own."""
        if not own_server:
            environ = {
                "LOADERWATCH_SERVER": self.server.url,
                "LOADERWATCH_TOKEN": self.server.token("agent"),
            } | environ
        number = len(self.hosts)
        self.hosts.append(
            Host(data_dir or self.folder / f"host{number}", self.folder / f"books{number}", name, **environ)
        )
        return self.hosts[-1]

    @property
    def host(self) -> Host:
        """The first machine, added when it is asked for."""
        return self.hosts[0] if self.hosts else self.add_host()

    def pause(self, low_s: float, high_s: float) -> None:
        """Let the others go on for a random time."""
        time.sleep(self.dice.uniform(low_s, high_s))

    def freeze(self, pid: int, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after ``seconds``."""
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def settle(self, timeout_s: float = BUSY_S) -> None:
        """Tell trainings to end; wait until they have and every streamer has sent all and left."""
        for host in self.hosts:
            for books in host.books.iterdir():
                (books / "enough").touch()
        for host in self.hosts:
            for trainer in host.trainers:
                trainer.wait(timeout_s)
            wait_or_tell(
                lambda host=host: not host.streamers() and not host.waiting(),  # type: ignore[misc]
                timeout_s, host,
            )  # fmt: skip

    def prove(self, run: str = RUN, *, lost: Sequence[str] = ()) -> Balance:
        """After the fault: end the training in order if it still runs, then compare its books with the store.

        ``lost`` names the causes of loss that this fault may have.
        """
        self.settle()
        self.server.stop()
        (host,) = self.hosts
        own = host.local_server()
        if own is not None:
            os.kill(own, signal.SIGTERM)
            wait_for(lambda: not lives(own))
        runs = host.settings.runs_dir if own is not None else self.server.data_dir / "runs"
        if self.server.store is not None:
            out_of_clickhouse(self.server.store, run, runs)
        return assert_balanced(host.books / run, runs, run, lost=lost)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for host in self.hosts:
            if kind is not None:
                print(host.log()[-6000:])
            host.end()
        self.server.kill()


def out_of_clickhouse(store: str, run: str, runs: Path) -> None:
    """Put a run into a file, row by row as ClickHouse has it, for books are compared with a file."""
    with closing(ClickHouseStore(parse_address(store))) as there, closing(DuckDBStore(runs)) as here:
        moved = of_store(there, run)
        arrival = here.arrive(run)
        for part in moved.parts():
            arrival.add(part)
        arrival.finish(moved.rest)


def wait_for(condition: Callable[[], object], timeout_s: float = BUSY_S) -> None:
    """Wait until it holds, or fail."""
    streaming.wait_for(condition, timeout_s)


def wait_or_tell(condition: Callable[[], object], timeout_s: float, host: Host) -> None:
    """Wait until it holds; fail with what is still there."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(
                f"still there after {timeout_s:g} s: {host.streamers()} {host.waiting()[:5]}"
            )
        time.sleep(0.1)


def holder(path: Path) -> int | None:
    """Which process holds the flock on a file."""
    try:
        inode = path.stat().st_ino
    except OSError:
        return None
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if "->" not in fields and fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
            return int(fields[4])
    return None


def command_of(pid: int) -> str:
    """A process's command line."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def lives(pid: int) -> bool:
    """Whether it runs, or is stopped; a zombie does not live."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
