"""The repro of "training stalls every few steps": the audit of setting C, and how the others differ.

Every number is taken from the last window of a run that the detectors saw, as the findings' evidence is.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.measures.statistics import ratio, total
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.recordings.recording import Recording, windows
from loaderwatch.texts import formats
from loaderwatch.texts.formats import duration, percent, rate
from tests.scenarios.cases import Case
from tests.scenarios.play import HANG_AFTER_S, ROOT

GROUP: Final = "repro"
SETTINGS: Final = {"repro_a": "A", "repro_b": "B", "repro_d": "D", "repro_d_advised": "D advised"}
AUDIT_S: Final = 100.0
BUSY_OTHERS: Final = 0.3  # CPUs


@dataclass(frozen=True)
class Audit:
    """What `loaderwatch doctor` said of a script."""

    case: Case
    got: tuple[str, ...]  # the checks
    exit_code: int | None
    said: str  # of the check that was awaited, or why there is none

    @property
    def right(self) -> bool:
        """It names what was awaited, and would stop a job that asks it first."""
        return self.exit_code == 1 and self.case.audit in self.got


def audit(case: Case) -> Audit:
    """Ask the doctor."""
    command = [
        sys.executable,
        "-m",
        "loaderwatch",
        "doctor",
        "--json",
        "-m",
        f"tests.scenarios.{case.script}",
    ]
    try:
        done = subprocess.run(
            [*command, *case.args], capture_output=True, text=True, timeout=AUDIT_S, cwd=ROOT
        )
        found = {one["check"]: one["what"] for one in json.loads(done.stdout)}
    except (subprocess.TimeoutExpired, json.JSONDecodeError) as fault:
        return Audit(case, (), None, f"no audit: {fault}")
    return Audit(case, tuple(found), done.returncode, found.get(case.audit, done.stderr.strip()))


@dataclass(frozen=True)
class Facts:
    """One run in numbers; NaN where not known. CPUs are in units of one core."""

    workers: int
    batches_per_s: float
    samples_per_s: float
    wait_ratio: float
    step_s: float
    reading_cpu_s: float  # per sample, the thread that reads
    cpu_s: float  # per sample, all threads of the run
    cpus: float  # in use by the run
    busy: float  # in use by anybody on this machine
    usable: float
    threads: float  # of a worker
    runnable: float  # workers that run or want to, on average
    delay_ratio: float  # of the time, a worker was ready and had no CPU
    switches_per_s: float  # involuntary, of one worker


def facts(payloads: Sequence[bytes]) -> Facts | None:
    """The run in numbers, from its envelopes; None when too little was recorded."""
    recorded = Recording(
        run_id="repro", run_name="repro", hang_after_s=HANG_AFTER_S, envelopes=list(payloads)
    )
    return next((found for window, _ in reversed(list(windows(recorded))) if (found := _facts(window))), None)


def _facts(window: RunWindow) -> Facts | None:
    rank = RunEvidence(window).ranks.get(0)
    now = next(iter(rank.recent_paces), None) if rank else None
    if rank is None or now is None or rank.process.state != "live":
        return None
    machine, cpus = rank.machine(now.loader.loader), rank.cpus
    lately = now.fetches.ended_ns >= now.request_ns[0]
    samples = total(now.fetches.samples[lately].astype(float))
    batches_per_s = 1 / now.iteration_s
    samples_per_s = batches_per_s * ratio(samples, float(lately.sum()))
    return Facts(
        workers=now.workers or 0,
        batches_per_s=batches_per_s,
        samples_per_s=samples_per_s,
        wait_ratio=now.share,
        step_s=now.mean_step_s,
        reading_cpu_s=ratio(total(now.fetches.cpu_s[lately]), samples),
        cpu_s=ratio(machine.ours, samples_per_s),
        cpus=machine.ours,
        busy=cpus.busy,
        usable=cpus.usable,
        threads=machine.worker_threads,
        runnable=machine.workers_runnable,
        delay_ratio=machine.worker_delay_ratio,
        switches_per_s=machine.worker_switches_per_s,
    )


def _count(value: float) -> str:
    return f"{value:.1f}"


def _whole(value: float) -> str:
    return f"{value:.0f}"


LINES: Final[tuple[tuple[str, Callable[[Facts], float], Callable[[float], str]], ...]] = (
    ("workers", lambda run: run.workers, _whole),
    ("threads of a worker", lambda run: run.threads, _whole),
    ("steps per second", lambda run: run.batches_per_s, lambda value: f"{value:.2f}"),
    ("samples per second", lambda run: run.samples_per_s, _count),
    ("data wait", lambda run: run.wait_ratio, percent),
    ("CPU per sample, reading thread", lambda run: run.reading_cpu_s, duration),
    ("CPU per sample, all threads", lambda run: run.cpu_s, duration),
    ("CPUs in use by the run", lambda run: run.cpus, _count),
    ("CPUs in use by anybody", lambda run: run.busy, _count),
    ("workers that want a CPU", lambda run: run.runnable if run.workers else math.nan, _count),
    ("of its time a worker waits for a CPU", lambda run: run.delay_ratio, percent),
    ("involuntary switches of a worker per second", lambda run: run.switches_per_s, rate),
)


def differences(played: Mapping[str, Facts]) -> str:
    """What differs between the settings and why, by the case's id."""
    runs = {SETTINGS[case]: played[case] for case in SETTINGS if case in played}
    lines = [f"{'the repro, by setting':46}" + "".join(f"{letter:>10}" for letter in runs)]
    for name, value, words in LINES:
        cells = [words(value(run)) if math.isfinite(value(run)) else "-" for run in runs.values()]
        lines.append(f"{name:46}" + "".join(f"{cell:>10}" for cell in cells))
    others = max(run.busy - run.cpus for run in runs.values())
    if others > BUSY_OTHERS:
        lines += [
            "",
            f"Other programs kept up to {_count(others)} CPUs busy meanwhile: CPU per sample compares better"
            " than the rates.",
        ]
    return "\n".join([*lines, "", *_why(runs)])


def _why(runs: Mapping[str, Facts]) -> list[str]:
    a, b, d, one = (runs.get(setting) for setting in SETTINGS.values())
    lines = []
    if a:
        lines.append(
            f"A  One thread reads and then trains: {_count(a.cpus)} of {formats.cpus(a.usable)} are in use."
            f" A sample costs {duration(a.reading_cpu_s)} of CPU, so one CPU reads at most"
            f" {rate(1 / a.reading_cpu_s)} a second; the step ({duration(a.step_s)}) comes on top,"
            f" and {percent(a.wait_ratio)} of the time is data wait."
        )
    if b:
        against = f", {b.samples_per_s / a.samples_per_s:.1f} times A's" if a else ""
        lines.append(
            f"B  {b.workers} workers read while the model trains: {_count(b.cpus)} of"
            f" {formats.cpus(b.usable)} are in use, for {rate(b.samples_per_s)} samples/s{against}."
            f" A sample costs {duration(b.reading_cpu_s)}, so {formats.cpus(b.usable)} give at most"
            f" {rate(b.usable / b.reading_cpu_s)}. {_count(b.runnable)} workers want a CPU,"
            f" each waits for one {percent(b.delay_ratio)} of its time: the queue is empty however much"
            " prefetch_factor asks for, and that one sample in a hundred sleeps does not show."
        )
    if d:
        more = (
            f", {d.cpu_s / b.cpu_s:.1f} times B's, and {rate(d.samples_per_s)} samples/s come out instead of"
            f" {rate(b.samples_per_s)}"
            if b
            else ""
        )
        lines.append(
            f"D  {d.workers} workers with {d.threads:.0f} threads each, on {formats.cpus(d.usable)}:"
            f" {_count(d.cpus)} CPUs are in use as well, but a sample costs {duration(d.cpu_s)} over all"
            f" threads{more}. The reading thread needs {duration(d.reading_cpu_s)} of it;"
            " in the rest threads spin while they wait for others that have no CPU."
        )
    if d and one:
        lines.append(
            f"   As many workers with one thread each, D's advice: {rate(one.samples_per_s)} samples/s,"
            f" {one.samples_per_s / d.samples_per_s:.1f} times D's, at {duration(one.cpu_s)} of CPU per"
            " sample. So the threads were what cost, not the number of workers;"
            f" {one.workers} on {formats.cpus(one.usable)} are still too many."
        )
    return lines
