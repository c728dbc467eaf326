"""``loaderwatch run`` reports a job that hangs before any rank has a loader, with the missing rank."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.serving import Access, ServeProcess
from tests.fakes.streaming import end_processes, kill_group
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc"),
]

NEVER_COMES = """
import os, socket
import torch.distributed as dist

def ask_for_settings():
    service = socket.create_server(("127.0.0.1", 0))
    with socket.create_connection(service.getsockname()) as connection:
        connection.recv(1)

if os.environ["RANK"] == "1":
    ask_for_settings()
dist.init_process_group("gloo")
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Access]:
    with ServeProcess(tmp_path / "data", "--port", "0", "--hang-after", "3") as process:
        yield process.start()
    end_processes(tmp_path / "data")


def test_a_rank_that_never_comes_is_told(tmp_path: Path, served: Access) -> None:
    (tmp_path / "train.py").write_text(NEVER_COMES)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LOADERWATCH_")}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    job = subprocess.Popen(
        [sys.executable, "-m", "loaderwatch", "run", "--name", "mine", "--", *torchrun, "train.py"],
        cwd=tmp_path,
        env={**clean, "LOADERWATCH_DIR": str(tmp_path / "data"), "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    told: list[dict[str, Any]] = []

    def is_told() -> bool:
        runs = [run for run in served.get("/runs") if run["run_id"] == "mine"]
        told[:] = [
            finding
            for finding in (served.get("/runs/mine/findings") if runs else [])
            if finding["code"] == "hung" and finding["severity"] == "critical"
        ]
        return bool(told)

    try:
        wait_until("the hang is told", is_told)
        (finding,) = told
        assert (finding["scenario"], finding["rank"]) == ("S53", 1)
        assert "init_process_group" in finding["title"]
        assert "in ask_for_settings" in finding["title"]
        assert job.poll() is None
    finally:
        kill_group(job.pid)
        job.wait()
