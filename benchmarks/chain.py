"""The whole chain of one host, for benchmarks: players, one streamer, one server, in a private directory."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import msgspec
import psutil

from benchmarks.streamer import simulate_gpus
from loaderwatch.core.config import Settings, load_settings
from loaderwatch.core.facts import ProcessInfo
from loaderwatch.streamer.outbox.files import host_folder_name, load_state

RUN: Final = "soak"
PLAYERS: Final = 4
END_WITHIN_S: Final = 120.0


class Chain:
    """Players, streamer and server, each a process group of its own, in a private directory."""

    def __init__(self, folder: Path, ranks: int, gpus: int) -> None:
        self.folder = folder
        self.ranks = ranks
        self._environ = {**os.environ, "LOADERWATCH_DIR": str(folder / "data")}
        for name in ("LOADERWATCH_SERVER", "LOADERWATCH_TOKEN"):
            self._environ.pop(name, None)
        self.settings: Settings = load_settings(self._environ)
        self.rings = self.settings.rings_dir / RUN
        self._gpus = gpus
        self.players: list[subprocess.Popen[bytes]] = []
        self.ledgers: list[Path] = []
        self.infos: dict[int, ProcessInfo] = {}
        self.port = 0
        self.token = ""

    def start(self) -> None:
        """Server, players, streamer, in this order; returns when all of them are there."""
        self.server = self._spawn("server", "loaderwatch", "serve", "--data-dir", self.settings.data_dir)
        _until("the server", lambda: self.settings.server_path.exists(), self.server)
        self.port = int(json.loads(self.settings.server_path.read_text())["url"].rsplit(":", 1)[1])
        self.token = json.loads(self.settings.token_path.read_text())["viewer"]
        self.rings.mkdir(parents=True, mode=0o700)
        for number in range(min(PLAYERS, self.ranks)):
            ledger = self.folder / f"ledger-{number}.json"
            want = {
                "folder": str(self.rings),
                "ledger": str(ledger),
                "ranks": list(range(number, self.ranks, PLAYERS)),
                "world_size": self.ranks,
            }
            self.players.append(self._spawn("players", "benchmarks.players", json.dumps(want)))
            self.ledgers.append(ledger)
        _until("the players", lambda: len(list(self.rings.glob("main-*.ring"))) == self.ranks, *self.players)
        for path in self.rings.glob("main-*.json"):
            info = msgspec.json.decode(path.read_bytes(), type=ProcessInfo)
            self.infos[info.rank] = info
        mains = [self.infos[rank].pid for rank in sorted(self.infos)]
        self._environ |= simulate_gpus(self.folder / "nvml", self._gpus, mains)
        self.streamer = self._spawn("streamer", "loaderwatch.streamer", "--run-id", RUN, "--run-name", "soak")

    def _spawn(self, log: str, module: str, *arguments: object) -> subprocess.Popen[bytes]:
        with (self.folder / f"{log}.log").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", module, *map(str, arguments)],
                env=self._environ,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def written(self) -> dict[int, int]:
        """Steps by rank, as the ledgers say."""
        found: dict[int, int] = {}
        for ledger in self.ledgers:
            with contextlib.suppress(FileNotFoundError):
                told = json.loads(ledger.read_text())["steps"]
                found |= {int(rank): steps for rank, steps in told.items()}
        return found

    def acknowledged(self) -> dict[str, int]:
        """Ring cursors that the server has, as the streamer's state says."""
        state = load_state(self.settings.outbox_dir / RUN / host_folder_name())
        return state.cursors if state is not None else {}

    def outbox(self) -> int:
        """Envelopes that wait on disk."""
        return len(list(self.settings.outbox_dir.glob(f"{RUN}/*/*.lwe")))

    def died(self) -> str | None:
        """What ended that should not have."""
        for name, process in [
            ("server", self.server),
            ("streamer", self.streamer),
            *(("players", p) for p in self.players),
        ]:
            if process.poll() is not None:
                said = (self.folder / f"{name}.log").read_text(errors="replace")[-1500:]
                return f"{name} ended with {process.returncode}: {said}"
        return None

    def end(self) -> list[str]:
        """Players first, then the streamer by itself, then the server; what did not end so, in words."""
        troubles = []
        for process in self.players:
            process.terminate()
        for name, process in [*(("players", p) for p in self.players), ("streamer", self.streamer)]:
            try:
                process.wait(END_WITHIN_S)
            except subprocess.TimeoutExpired:
                troubles.append(f"{name} did not end by itself within {END_WITHIN_S:.0f} s")
        self.server.terminate()
        try:
            self.server.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            troubles.append(f"the server did not end within {END_WITHIN_S:.0f} s")
        for ledger in self.ledgers:
            if not json.loads(ledger.read_text())["ended"]:
                troubles.append(f"{ledger.name} is not the last word of its players")
        return troubles

    def kill(self) -> None:
        """Whatever is left, the standby and what it would start included."""
        while left := [process for process in psutil.process_iter() if self._owns(process)]:
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=10)
        shutil.rmtree(self.settings.rings_dir, ignore_errors=True)

    def _owns(self, process: psutil.Process) -> bool:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            return bool(process.environ().get("LOADERWATCH_DIR") == self._environ["LOADERWATCH_DIR"])
        except psutil.Error:
            return False  # gone, or somebody else's


def _until(what: str, done: Any, *processes: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        if time.monotonic() > deadline or any(p.poll() is not None for p in processes):
            raise SystemExit(f"{what} did not start")
        time.sleep(0.1)
