"""``--restart-on-hang``: notices a lasting hang, saves the evidence, and ends the job."""

from __future__ import annotations

import http.client
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from loaderwatch.core.answers import Finding, Param, Stack
from loaderwatch.core.client import Client, ServerError, find_own_server
from loaderwatch.core.config import Settings
from loaderwatch.core.facts import AT_END
from loaderwatch.core.files import private_folder, write_atomically
from loaderwatch.core.printable import printable
from loaderwatch.supervisor.job import Job, living
from loaderwatch.supervisor.say import say
from loaderwatch.supervisor.watch import JobRuns
from loaderwatch.texts import in_own_language, own_language

LONGEST_PAUSE_S: Final = 600.0


def lasting_hang(
    findings: Iterable[Finding], *, began_at: float, now: float, after_s: float
) -> Finding | None:
    """Return the alert of a hang that has lasted ``after_s`` seconds; None if there is none.

    Only a critical, firing alert counts: a person who acknowledged or silenced it is looking into it, and
    slow input is no hang. A job whose script is over has done its work, and a restart would repeat it. An
    alert from before ``began_at``, the start of this attempt, belongs to an earlier attempt.
    """
    return next(
        (
            finding
            for finding in findings
            if finding.code == "hung"
            and (finding.severity, finding.state) == ("critical", "firing")
            and finding.began_at >= began_at
            and now - finding.began_at >= after_s
            and not any(fact.value == AT_END for fact in finding.evidence)
        ),
        None,
    )


def pause_s(restart: int, first_s: float) -> float:
    """Return the pause in seconds before the restart of this number: doubled each time, at most 10 min."""
    return min(first_s * 2.0 ** min(restart - 1, 30), max(first_s, LONGEST_PAUSE_S))


def process_of(stack: Stack) -> dict[str, Param]:
    """Return the parameters of the message ``process-of-rank``: "rank 0, worker 1 (pid 4711)"."""
    return {"rank": stack.rank, "worker": None if stack.worker < 0 else stack.worker, "pid": stack.pid}


def taken_clock(stack: Stack) -> str:
    """Return the time of the stack by this machine's clock and time zone."""
    return time.strftime("%H:%M:%S", time.localtime(stack.taken_at))


def in_order(stacks: Iterable[Stack]) -> list[Stack]:
    """Return stacks by rank, each rank's training process before its workers."""
    return sorted(stacks, key=lambda stack: (stack.rank, stack.worker))


def stacks_text(stacks: Iterable[Stack]) -> str:
    """Return the stacks in order, each with its head; an empty stack shows its reason."""
    return "\n\n".join(map(_text, in_order(stacks)))


def _text(stack: Stack) -> str:
    body = printable(stack.text).strip("\n") or stack.why or in_own_language("no-stack-came")
    head = f"{in_own_language('process-of-rank', **process_of(stack))}, {taken_clock(stack)}"
    return "\n".join([head, *(f"  {line}" for line in body.splitlines())])


STACKS_WITHIN_S: Final = 10.0
RECORDED_S: Final = 600.0

_FAILURES: Final = (OSError, ServerError, http.client.HTTPException)


def save(client: Client, settings: Settings, run_id: str) -> list[Path]:
    """Take stacks of the run now, write them and its recording beside the data, and return the files.

    A failure is reported and does not prevent the end of the job.
    """
    folder = settings.data_dir / "hangs"
    name = f"{run_id}-{time.strftime('%Y%m%d-%H%M%S')}"
    files = []
    try:
        private_folder(folder)
        owner = client if settings.server else find_own_server(settings.data_dir, "owner") or client
        stacks, missing = owner.fresh_stacks(run_id, None, STACKS_WITHIN_S)
        file = folder / f"{name}.stacks.txt"
        write_atomically(file, f"{stacks_text([*stacks, *missing])}\n".encode("utf-8", "replace"))
        files.append(file)
    except _FAILURES as error:
        say("no-fresh-stacks", run=run_id, error=str(error))
    try:
        recording = client.recording(run_id, RECORDED_S)
        file = folder / f"{name}.lwrec"
        write_atomically(file, recording)
        files.append(file)
    except _FAILURES as error:
        say("no-recording", run=run_id, error=str(error))
    return files


GRACE_S: Final = 45.0
"""How long a job may take to end after SIGTERM. torchrun gives its ranks 30 s before it kills them."""
KILLED_WITHIN_S: Final = 15.0
"""How long the kernel may take to end a killed process. Only a wait in the kernel (state D) lasts longer."""


@dataclass(frozen=True, slots=True)
class Hang:
    """A hang for which the job must be ended, and the files with its evidence."""

    run_id: str
    finding: Finding
    saved: list[Path]


class HangWatch:
    """Observes the findings of one attempt, in the thread of ``Watch``; sets ``hang`` when a hang has lasted.

    If the job may not be ended (any more), one line reports the hang.
    """

    def __init__(
        self, settings: Settings, runs: JobRuns, after_s: float, began_at: float, *, may_end: bool
    ) -> None:
        self._settings = settings
        self._runs = runs
        self._after_s = after_s
        self._began_at = began_at
        self._may_end = may_end
        self._told = False
        self.hang: Hang | None = None

    def observe(self, client: Client, run_id: str, findings: Sequence[Finding]) -> None:
        """Save the evidence of a lasting hang, and set ``hang`` if the hang still goes on after that.

        torchrun may be restarting its ranks, or a collective's timeout may have ended the wait. So one of the
        run's processes must be older than the hang, and the hang must still exist when all is saved.
        """
        if self.hang is not None or self._told or self._lasting(run_id, findings) is None:
            return
        if not self._may_end:
            self._told = True
            say("hangs-again")
            return
        saved = save(client, self._settings, run_id)
        finding = self._lasting(run_id, client.findings(run_id, language=own_language()))
        if finding is None or client.summary(run_id).state != "hung":
            return
        self.hang = Hang(run_id, finding, saved)

    def _lasting(self, run_id: str, findings: Sequence[Finding]) -> Finding | None:
        finding = lasting_hang(findings, began_at=self._began_at, now=time.time(), after_s=self._after_s)
        if finding is None or not self._runs.has_one_since(run_id, finding.began_at):
            return None
        return finding


def end_job(job: Job, pump: Callable[[float], object], grace_s: float = GRACE_S) -> list[psutil.Process]:
    """End the job and all its descendants, first politely, then by force; return the survivors.

    First the job's first process gets SIGTERM, so that a launcher ends its ranks in its own way. Once it is
    gone, its remaining descendants get SIGTERM. After ``grace_s``, all are killed.

    Args:
        job: the job.
        pump: waits for the given seconds and handles signals meanwhile.
        grace_s: seconds.
    """
    everyone = job.tree()
    job.send(signal.SIGTERM)
    job.send(signal.SIGCONT)  # a stopped process reacts only after this
    asked_rest = False
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline:
        pump(0.1)
        first_ended = job.poll() is not None
        everyone = _with_new(everyone, living(everyone))
        if first_ended and not living(everyone):
            return []
        if first_ended and not asked_rest:
            asked_rest = True
            _signal(living(everyone), signal.SIGTERM)
    deadline = time.monotonic() + KILLED_WITHIN_S
    while True:
        left = living(everyone)
        everyone = _with_new(everyone, left)
        _signal(left, signal.SIGKILL)
        pump(0.1)
        if job.poll() is not None and not living(everyone):
            return []
        if time.monotonic() > deadline:
            return living(everyone)


def _with_new(known: list[psutil.Process], found: list[psutil.Process]) -> list[psutil.Process]:
    return [*known, *(process for process in found if process not in known)]


def _signal(processes: list[psutil.Process], number: int) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.Error:
            continue  # it is gone, or belongs to another user
