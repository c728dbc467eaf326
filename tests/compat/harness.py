"""Runs the cases of a module bare and watched, each way in a fresh process, and compares what they saw.

Cases that leave their process alive share one per way and start method; the others get their own.
"""

from __future__ import annotations

import difflib
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from loaderwatch.core.config import load_settings
from tests.compat.case import ATTACHED, BARE, FORK, RUN, Case, cases_of, plain_text
from tests.compat.child import STACKS

TIMEOUT_S: Final = 400
"""Of one child process: minutes on a machine that is busy with other things, seconds else."""
LONG_TIMEOUT_S: Final = 600
_ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Trial:
    """One case, run in one way, with one start method."""

    module: str
    name: str
    method: str
    way: str

    @property
    def case(self) -> Case:
        """What is run."""
        return cases_of(importlib.import_module(self.module))[self.name]


@dataclass(frozen=True)
class Process:
    """What one child process is to run."""

    module: str
    method: str
    way: str
    names: tuple[str, ...]
    alone: bool


@dataclass
class Outcome:
    """What a child process left: what each case saw, and its end."""

    seen: dict[str, Any]
    began: str = ""
    exit_code: int | None = None
    late: bool = False  # it had to be killed
    stdout: str = ""
    stderr: str = ""
    output: str = ""  # of the case that it did not come out of


def trials_of(module: str, long: bool = False) -> list[Any]:
    """Test parameters for each case of a module, way and start method; ``long``: only in ``make compat``."""
    return [
        pytest.param(
            Trial(module, name, method, way),
            id=f"{name}-{method}-{way}",
            # the first test of a group waits for all its processes
            marks=[
                pytest.mark.timeout(4 * LONG_TIMEOUT_S),
                *([pytest.mark.long] if long or one.is_long(method, way) else []),
                *(pytest.mark.skip(f"{need} is not installed") for need in one.needs if not find_spec(need)),
            ],
        )
        for name, one in cases_of(importlib.import_module(module)).items()
        for method in one.methods
        for way in one.ways
        if method == FORK or way == ATTACHED
    ]


class Laboratory:
    """Runs the processes that the chosen trials need, each once, as they are first asked for."""

    def __init__(self, trials: Iterable[Trial]) -> None:
        self._trials = list(trials)
        self._outcomes: dict[Process, Outcome] = {}

    def compare(self, trial: Trial) -> None:
        """Fail unless the case saw the same as without us."""
        self._run(trial)
        one = trial.case
        ours = self._outcomes[self._process(trial, trial.way)]
        bare = self._outcomes[self._process(trial, BARE)]
        if one.alone:
            for outcome in (bare, ours):
                assert not outcome.late, f"did not end in time:\n{outcome.stdout}\n{outcome.stderr}"
            ends = [[end.exit_code, end.stdout, end.stderr] for end in (bare, ours)]
            assert ends[0] == ends[1], difference(*ends)
        else:
            for way, outcome in ((BARE, bare), (trial.way, ours)):
                assert trial.name in outcome.seen, (
                    f"the process ({way})"
                    f" {'was still' if outcome.late else f'ended with {outcome.exit_code}'}"
                    f" in {outcome.began}:\n{outcome.stderr}\n{outcome.output}"
                )
        assert (trial.name in ours.seen) == (trial.name in bare.seen)
        if trial.name in ours.seen:
            seen, expected = dict(ours.seen[trial.name]), dict(bare.seen[trial.name])
            record = seen.pop("ours")
            expected.pop("ours")
            assert seen == expected, f"{difference(expected, seen)}\n{ours.stderr[-4000:]}"
            assert record["faults"] == []
            assert bool(record["recorded"]) != one.unwatched, (
                "no batch was watched: the comparison says nothing"
            )

    def _process(self, trial: Trial, way: str) -> Process:
        if trial.case.alone:
            names: tuple[str, ...] = (trial.name,)
        else:
            names = tuple(
                dict.fromkeys(
                    other.name
                    for other in self._trials
                    if (other.module, other.method) == (trial.module, trial.method) and not other.case.alone
                    if way in (BARE, other.way)
                )
            )
        return Process(trial.module, trial.method, way, names, trial.case.alone)

    def _run(self, trial: Trial) -> None:
        ways = [
            other.way
            for other in self._trials
            if (other.module, other.method) == (trial.module, trial.method)
            and (other.name == trial.name if trial.case.alone else not other.case.alone)
        ]
        processes = dict.fromkeys(self._process(trial, way) for way in (BARE, *ways))
        missing = [process for process in processes if process not in self._outcomes]
        with ThreadPoolExecutor(2) as pool:
            self._outcomes.update(zip(missing, pool.map(_outcome, missing), strict=True))


def difference(bare: Any, watched: Any) -> str:
    """What to read of two results that are not equal."""
    before, after = (
        json.dumps(one, indent=1, sort_keys=True).replace("\\n", "\n").splitlines() for one in (bare, watched)
    )
    return "\n".join(difflib.unified_diff(before, after, "bare", "watched", lineterm="", n=2))


def _outcome(process: Process) -> Outcome:
    cases = cases_of(importlib.import_module(process.module))
    chosen = [cases[name] for name in process.names]
    directory = Path(tempfile.mkdtemp(prefix="loaderwatch-compat-"))
    env = {name: value for name, value in os.environ.items() if not name.startswith("LOADERWATCH_")}
    env |= {
        "LOADERWATCH_DIR": str(directory / "data"),
        "LOADERWATCH_SERVER": "http://127.0.0.1:9",  # nobody answers there; no local server is started
        "LOADERWATCH_TOKEN": "a-token-of-nobody",  # without one, the job is warned that nothing can be sent
        "PYTHONPATH": str(_ROOT),
        "PYTHONHASHSEED": "0",
    }
    if not any(one.streamer for one in chosen):
        env["LOADERWATCH_NO_STREAMER"] = "1"
    limit = LONG_TIMEOUT_S if any(one.long for one in chosen) else TIMEOUT_S
    order = {
        "module": process.module,
        "way": process.way,
        "method": process.method,
        "cases": process.names,
        "alone": process.alone,
        "out": str(directory / "out"),
    }
    python = [sys.executable, *(option for one in chosen for option in one.options)]
    run = ["-m", "loaderwatch", "run", "--", *python] if process.way == RUN else []
    command = [*python, *run, "-m", "tests.compat.child", json.dumps(order)]
    try:
        return run_to_its_end(command, env, directory, limit)
    finally:
        kill_streamers(directory)
        shutil.rmtree(load_settings(env).rings_dir, ignore_errors=True)
        shutil.rmtree(directory, ignore_errors=True)


def run_to_its_end(command: list[str], env: dict[str, str], directory: Path, limit: float) -> Outcome:
    """Run a command in a directory; return its files and its end. At the limit it dies, with its children."""
    outcome = Outcome({})
    # Files, not pipes: a worker that is left behind must not keep us reading.
    with (directory / "stdout").open("wb") as out, (directory / "stderr").open("wb") as err:
        child = subprocess.Popen(
            command,
            cwd=directory,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            outcome.exit_code = child.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, STACKS)
            time.sleep(1)
            outcome.late = True
        finally:
            _kill_group(child)
    outcome.stdout = plain_text((directory / "stdout").read_text(errors="replace"))
    outcome.stderr = plain_text((directory / "stderr").read_text(errors="replace"))
    if (directory / "out").exists():
        for line in (directory / "out").read_text().splitlines():
            said = json.loads(line)
            outcome.began = said["case"]
            if "seen" in said:
                outcome.seen[said["case"]] = said["seen"]
    outcome.output = "".join(path.read_text(errors="replace") for path in directory.glob("*/output"))
    return outcome


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        child.wait()


def kill_streamers(directory: Path) -> None:
    """They are in sessions of their own, and wait for a server that never comes."""
    mark = f"LOADERWATCH_DIR={directory}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:  # ended meanwhile, or somebody else's
            continue
