"""Plays the scripts: attached, through their own streamers to a real server, several at a time."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.fakes.serving import Access, ServeProcess
from tests.fakes.streaming import Streaming, kill
from tests.scenarios.cases import Case

ROOT = Path(__file__).resolve().parents[2]
HANG_AFTER_S = 6.0  # stacks are taken when a span is five seconds old
AT_ONCE = 4
START_S = 30.0  # for Python, torch and ranks to come up on a busy machine


@dataclass
class Outcome:
    """What the server found."""

    case: Case
    findings: list[dict[str, Any]] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    seconds: float = 0.0
    output: str = ""

    @property
    def alerts(self) -> list[dict[str, Any]]:
        """Findings that a person is told of."""
        return [finding for finding in self.findings if finding["severity"] != "info"]

    def found(self) -> dict[str, Any]:
        """The finding that was awaited, and proof that it is the only one."""
        assert self.alerts, f"{self.case.id}: nothing was found in {self.seconds:.0f} s\n{self.report()}"
        scenarios = {finding["scenario"] for finding in self.alerts}
        assert scenarios <= set(self.case.scenarios), self.report()
        assert len(self.alerts) == 1, self.report()
        return self.alerts[0]

    def report(self) -> str:
        """For a test that failed."""
        lines = [f"{f['scenario']} {f['severity']} {f['state']}: {f['title']}" for f in self.findings]
        return "\n".join([self.case.id, *lines, *self.verdicts[-5:], self.output[-3000:]])


def play(cases: Sequence[Case], data_dir: Path) -> dict[str, Outcome]:
    """Play all; by the case's id."""
    with (
        ServeProcess(data_dir / "server", "--port", "0", "--hang-after", str(HANG_AFTER_S)) as server,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        access = server.start()
        played = pool.map(lambda case: _play(case, access, data_dir / case.id), cases)
        outcomes = {outcome.case.id: outcome for outcome in played}
        server.stop()
    return outcomes


def _play(case: Case, access: Access, data_dir: Path) -> Outcome:
    data_dir.mkdir(parents=True)
    run_id = case.id.replace("_", "-")
    outcome = Outcome(case)
    log = data_dir / "output.txt"
    with (
        Streaming(data_dir, access.url, run_id, LOADERWATCH_TOKEN=access.agent) as streaming,
        log.open("wb") as file,
    ):
        environ = {
            **streaming.environ,
            "LOADERWATCH_RUN": run_id,
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            **case.environ,
        }
        # An open pipe as stdin: a debugger waits at it as at a terminal.
        process = subprocess.Popen(
            _command(case),
            env=environ,
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        began = time.monotonic()
        try:
            with access.client() as client:
                _watch(case, outcome, process, client, f"/api/v1/runs/{run_id}")
        finally:
            outcome.seconds = time.monotonic() - began
            for pid in streaming.pids():
                kill(pid)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=20)
            shutil.rmtree(streaming.settings.rings_dir, ignore_errors=True)
            outcome.output = log.read_text(errors="replace")
    return outcome


def _command(case: Case) -> list[str]:
    module = ["-m", f"tests.scenarios.{case.script}", *case.args]
    if case.ranks == 1:
        return [*case.before, sys.executable, *case.python, *module]
    return [
        *case.before,
        sys.executable,
        *("-m", "torch.distributed.run", "--nproc-per-node", str(case.ranks)),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"),
        *module,
    ]


def _watch(
    case: Case, outcome: Outcome, process: subprocess.Popen[bytes], client: httpx.Client, path: str
) -> None:
    deadline = time.monotonic() + START_S + case.within_s
    ended_at: float | None = None
    while time.monotonic() < deadline:
        time.sleep(0.5)
        answer = client.get(f"{path}/findings")
        if answer.status_code == 200:
            outcome.findings = answer.json()
            verdict = client.get(f"{path}/summary").json()["verdict"]["title"]
            if [verdict] != outcome.verdicts[-1:]:
                outcome.verdicts.append(verdict)
        if any(_is_awaited(case, finding) for finding in outcome.alerts):
            return
        if process.poll() is not None:
            ended_at = ended_at or time.monotonic()
            if time.monotonic() - ended_at > 2.0:
                return


def _is_awaited(case: Case, finding: dict[str, Any]) -> bool:
    return finding["scenario"] in case.scenarios and (bool(finding["stacks"]) or not case.stacks)
