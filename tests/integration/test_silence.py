"""Hangs without any event for half an hour: one alert each, always open, also after a server restart.

`make silence` runs it, on its own; SILENCE_S is how long it looks.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.serving import Access, ServeProcess, wait_until
from tests.fakes.streaming import Streaming, kill
from tests.scenarios.play import ROOT

SILENCE_S = float(os.environ.get("SILENCE_S", "1800"))
SCRIPTS = {
    "s52_save": 1,
    "s53_report": 1,
    "s36_silent_read": 1,
    "s26_validation_locked": 1,
    "s53_rank_locked": 2,
    "s44_unequal": 2,
}
"""How many ranks each has."""
GIVE_UP_S = int(SILENCE_S) + 3600
"""The timeout of their collectives: PyTorch's own would end the ranks after half an hour."""
TOLD_WITHIN_S = 240.0  # the first gap between two epochs has the longest limit of them

pytestmark = [pytest.mark.long, pytest.mark.timeout(int(SILENCE_S) + 900)]


@contextmanager
def playing(script: str, folder: Path, access: Access) -> Iterator[None]:
    """Play a scenario's script in its own group and data directory, under the product's limits."""
    streaming = Streaming(folder, access.url)
    environ = {
        **streaming.environ,
        "LOADERWATCH_RUN": script,
        "LOADERWATCH_TOKEN": access.agent,
        "OMP_NUM_THREADS": "1",
        "SCENARIO_GIVE_UP_S": str(GIVE_UP_S),
    }
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(SCRIPTS[script]))
    with (folder.parent / f"{script}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *(torchrun if SCRIPTS[script] > 1 else ()), "-m", f"tests.scenarios.{script}"],
            cwd=ROOT,
            env=environ,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield
        assert process.poll() is None, (folder.parent / f"{script}.log").read_text()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        for pid in streaming.pids():  # the ranks too, which torchrun puts into sessions of their own
            kill(pid)
        process.wait(20)


def free_port() -> int:
    """One that the server can come back to."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def alerts_of(client: httpx.Client) -> dict[str, list[dict[str, Any]]]:
    """By the name of each run, the reported hangs, over or not."""
    found = {}
    for run in client.get("/api/v1/runs").json():
        findings = client.get(f"/api/v1/runs/{run['run_id']}/findings").json()
        found[run["name"]] = [
            finding for finding in findings if finding["code"] == "hung" and finding["severity"] != "info"
        ]
    return found


def test_a_hang_stays_one_open_alert(data_dir: Path, tmp_path: Path) -> None:
    with ServeProcess(data_dir, "--port", str(free_port())) as server, ExitStack() as scripts:
        access = server.start()
        for script in SCRIPTS:
            (tmp_path / script).mkdir()
            scripts.enter_context(playing(script, tmp_path / script, access))
        told: dict[str, list[dict[str, Any]]] = {}

        def all_told() -> bool:
            with access.client() as client:
                told.update(alerts_of(client))
            return all(told.get(script) for script in SCRIPTS)

        wait_until("all hangs are told", all_told, TOLD_WITHIN_S)
        until, restart_at = time.monotonic() + SILENCE_S, time.monotonic() + SILENCE_S / 2
        looks = 0
        while time.monotonic() < until:
            if restart_at and time.monotonic() > restart_at:
                server.kill()
                (data_dir / "server.json").unlink()  # what a killed server leaves
                access, restart_at = server.start(), 0.0
            with access.client() as client:
                now = alerts_of(client)
            assert {name: len(alerts) for name, alerts in now.items()} == dict.fromkeys(SCRIPTS, 1), now
            for script in SCRIPTS:
                (before,), (after,) = told[script], now[script]
                assert (after["id"], after["scenario"]) == (before["id"], before["scenario"])
                assert after["ended_at"] is None, after
            looks += 1
            time.sleep(2)
        assert looks > SILENCE_S / 10
