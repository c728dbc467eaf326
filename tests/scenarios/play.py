"""Plays the scripts: attached, through their own streamers to a real server, several at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import time
import unittest
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from loaderwatch.core import wire
from tests.fakes.own_faults import own_faults
from tests.fakes.serving import Access, ServeProcess
from tests.fakes.streaming import Streaming, kill
from tests.fakes.tap import Tap
from tests.scenarios.cases import NOT_HERE, Case, counts
from tests.scenarios.judge import waited_s
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
HANG_AFTER_S = 6.0  # stacks are taken when a span is five seconds old
AT_ONCE = 4
SLEEPERS_AT_ONCE = 8
SLEEPING_GROUPS = frozenset({"collectives", "epochs", "hung", "ranks", "start_end", "stuck", "threads"})
"""Groups whose cases mostly wait and hardly compute, so more of them can run at the same time."""
BUILT_IN = "built in: "  # as training.py prints it; this module need not import torch
START_S = 30.0  # for Python, torch and ranks to come up


@dataclass
class Outcome:
    """What the server found."""

    case: Case
    findings: list[dict[str, Any]] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    seconds: float = 0.0
    output: str = ""
    exit_code: int | None = None  # None: it had to be ended
    fired_at: dict[tuple[str, str], float] = field(
        default_factory=dict
    )  # by the finding's id and key (another may have taken it over): when the API first gave it, UTC
    payloads: list[bytes] = field(default_factory=list)  # the envelopes as the server took them in

    @property
    def alerts(self) -> list[dict[str, Any]]:
        """Findings that alert a person, and the expected remark, if any."""
        return [finding for finding in self.findings if counts(self.case, finding)]

    @property
    def not_here(self) -> str:
        """Why the script cannot show its stall on this machine; "" where it can."""
        return self.output.strip().splitlines()[-1] if self.exit_code == NOT_HERE else ""

    def found(self) -> dict[str, Any]:
        """The finding that was awaited, and proof that it is the only one.

        Raises:
            unittest.SkipTest: the script cannot show it on this machine.
        """
        if self.not_here:
            raise unittest.SkipTest(self.not_here)
        assert self.alerts, f"{self.case.id}: nothing was found in {self.seconds:.0f} s\n{self.report()}"
        scenarios = {finding["scenario"] for finding in self.alerts}
        assert scenarios <= set(self.case.scenarios), self.report()
        assert len(self.alerts) == 1, self.report()
        return self.alerts[0]

    def late_s(self) -> float:
        """Seconds from the hang's limit until the API gave the finding that was awaited."""
        finding = self.found()
        fired_at = self.fired_at[finding["id"], finding["key"]]
        late_s = waited_s(finding["scenario"], finding, fired_at, self.payloads, HANG_AFTER_S)
        assert late_s is not None
        return late_s

    def report(self) -> str:
        """For a test that failed."""
        lines = [f"{f['scenario']} {f['severity']} {f['state']}: {f['title']}" for f in self.findings]
        return "\n".join([self.case.id, *lines, *self.verdicts[-5:], self.output[-3000:]])


def play(cases: Sequence[Case], data_dir: Path) -> dict[str, Outcome]:
    """Play all, several at a time; by the case's id."""
    at_once = SLEEPERS_AT_ONCE if {case.group for case in cases} <= SLEEPING_GROUPS else AT_ONCE
    with serve(data_dir) as access, ThreadPoolExecutor(at_once) as pool:
        played = pool.map(lambda case: play_one(case, access, data_dir / case.id), cases)
        return {outcome.case.id: outcome for outcome in played}


@contextlib.contextmanager
def serve(data_dir: Path, hang_after_s: float = HANG_AFTER_S) -> Iterator[Access]:
    """A real server for the scripts."""
    with ServeProcess(data_dir / "server", "--port", "0", "--hang-after", str(hang_after_s)) as server:
        yield server.start()
        server.stop()


def play_one(case: Case, access: Access, data_dir: Path, *, settle_s: float = 0.0, seed: int = 0) -> Outcome:
    """Play one case. ``settle_s``: how long to keep watching for other findings after the expected one.

    ``seed`` other than 0 changes the settings that must not matter; ``Outcome.case`` names their culprit.
    """
    data_dir.mkdir(parents=True)
    run_id = case.id.replace("_", "-")
    outcome = Outcome(case)
    log = data_dir / "output.txt"
    with (
        Tap(access.url) as tap,
        Streaming(data_dir, tap.url, run_id, LOADERWATCH_TOKEN=access.agent) as streaming,
        log.open("wb") as file,
    ):
        environ = {
            **streaming.environ,
            "LOADERWATCH_RUN": run_id,
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "SCENARIO_SEED": str(seed),
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
                _watch(outcome, process, client, f"/api/v1/runs/{run_id}", settle_s)
        finally:
            outcome.seconds = time.monotonic() - began
            outcome.exit_code = process.poll()
            for pid in streaming.pids():
                kill(pid)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=20)
            shutil.rmtree(streaming.settings.rings_dir, ignore_errors=True)
            outcome.output = log.read_text(errors="replace")
            outcome.case = built_in(case, outcome.output)
            outcome.payloads = list(tap.payloads)
    faults = own_faults(map(wire.decode, outcome.payloads))
    assert not faults, f"{case.id}: faults of our own by (rank, pid): {faults}\n{outcome.output[-3000:]}"
    return outcome


def built_in(case: Case, output: str) -> Case:
    """The case with the culprit that the script itself printed, if it did."""
    for line in output.splitlines():
        if line.startswith(BUILT_IN):
            said = json.loads(line.removeprefix(BUILT_IN))
            plain: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value for name, value in said.items()
            }
            return dataclasses.replace(case, **plain)
    return case


def line_of(script: str, words: str) -> int:
    """The number of the one line of a scenario's script that holds ``words``."""
    lines = (ROOT / "tests" / "scenarios" / script).read_text().splitlines()
    (number,) = (number for number, line in enumerate(lines, 1) if words in line)
    return number


def _command(case: Case) -> list[str]:
    module = ["-m", f"{case.package}.{case.script}", *case.args]
    if case.ranks == 1:
        return [*case.before, case.interpreter, *case.python, *module]
    return [
        *case.before,
        case.interpreter,
        *("-m", "torch.distributed.run", "--nproc-per-node", str(case.ranks)),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"),
        *module,
    ]


def _watch(
    outcome: Outcome, process: subprocess.Popen[bytes], client: httpx.Client, path: str, settle_s: float
) -> None:
    case = outcome.case
    deadline = time.monotonic() + max(START_S + case.within_s, PATIENCE_S if case.scenarios else 0.0)
    ended_at: float | None = None
    found_at: float | None = None
    while time.monotonic() < deadline:
        time.sleep(0.3)
        answer = client.get(f"{path}/findings")
        if answer.status_code == 200:
            outcome.findings = answer.json()
            for finding in outcome.alerts:
                outcome.fired_at.setdefault((finding["id"], finding["key"]), time.time())
            verdict = client.get(f"{path}/summary").json()["verdict"]["title"]
            if [verdict] != outcome.verdicts[-1:]:
                outcome.verdicts.append(verdict)
        if any(_is_awaited(case, finding) for finding in outcome.alerts):
            found_at = found_at or time.monotonic()
        if found_at is not None and time.monotonic() - found_at >= settle_s:
            return
        if process.poll() is not None:
            ended_at = ended_at or time.monotonic()
            if time.monotonic() - ended_at > 2.0:
                return


def _is_awaited(case: Case, finding: dict[str, Any]) -> bool:
    # The words grow with what is known: a stack read in this pass of the detectors appears in the next.
    text = " ".join((finding["title"], finding["cause"], finding["advice"]))
    told = len(finding["stacks"]) >= case.stacks and all(words in text for words in case.says)
    return finding["scenario"] in case.scenarios and told
