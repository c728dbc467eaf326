"""The supervisor: it starts the job, passes signals on, acts on alerts, and ends like the job."""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from loaderwatch.core.answers import Finding
from loaderwatch.core.client import Client
from loaderwatch.core.config import Settings
from loaderwatch.supervisor.job import Job, Signals, die_of
from loaderwatch.supervisor.on_alert import TIMEOUT_S, AlertCommand, AlertTeller
from loaderwatch.supervisor.restart import Hang, HangWatch, end_job, pause_s
from loaderwatch.supervisor.say import say
from loaderwatch.supervisor.watch import JobRuns, Observer, Watch

_WAIT_S: Final = 0.05
_LAST_ALERTS_S: Final = 20.0
"""How long to wait for the last alerts of an ended job: its streamer needs some seconds to send the end."""
_JOINED_WITHIN_S: Final = 2.0
_STOPS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@dataclass(frozen=True)
class Plan:
    """What to do besides running the job.

    Attributes:
        become: replaces the calling process by the job.
        run_id: the run's id, if known before the job starts.
        on_alert: the command for each alert; None: no command.
        restarts: how often the job may be restarted after a hang.
        after_s: seconds that a hang must last.
        first_pause_s: seconds before the first restart.
        environ: the command's environment, as it was before our variables were added.
    """

    settings: Settings
    become: Callable[[], object]
    run_id: str | None = None
    on_alert: str | None = None
    restarts: int = 0
    after_s: float = 600.0
    first_pause_s: float = 10.0
    environ: Mapping[str, str] | None = None


def supervise(plan: Plan) -> int:
    """Run the job to its end, with restarts; return its exit code, or end by the signal that ended it."""
    supervisor = _Supervisor(plan)
    try:
        return supervisor.run()
    except Exception as error:  # noqa: BLE001 - our fault must not hide the job's exit code
        say("supervisor-fault", error=repr(error))
        return supervisor.only_wait()


class _Supervisor:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._signals = Signals()
        self._job: Job | None = None
        self._stopped_by: int | None = None  # the last signal that asked for the end
        self._run_ids = [] if plan.run_id is None else [plan.run_id]
        self._command = (
            None if plan.on_alert is None else AlertCommand(plan.on_alert, plan.environ or os.environ)
        )
        began_at = time.time()
        self._tellers: defaultdict[str, AlertTeller] = defaultdict(lambda: AlertTeller(began_at))

    def run(self) -> int:
        restarts = 0
        while True:
            may_restart = restarts < self._plan.restarts
            returncode, hang = self._attempt(may_restart=may_restart)
            if hang is None or self._stopped_by is not None:
                return self._end(returncode)
            restarts += 1
            if not self._pause(restarts):
                return self._end(returncode)

    def only_wait(self) -> int:
        """Wait for the job, pass signals on, and end like the job. A job that never started has failed."""
        job = self._job
        if job is None:
            return 1
        while job.poll() is None:
            self._pump(_WAIT_S)
        return self._end(self._code(job))

    def _attempt(self, *, may_restart: bool) -> tuple[int, Hang | None]:
        """Run the job once; return its exit code, and the hang for which it was ended, if any."""
        began_at = time.time()
        job = self._job = Job(self._plan.become, self._signals.inherited_mask)
        if not job.shares_group:
            self._signals.take_job_control()
        runs = JobRuns(self._plan.settings.rings_dir, job.pid, self._run_ids)
        hangs = HangWatch(self._plan.settings, runs, self._plan.after_s, began_at, may_end=may_restart)
        observers: list[Observer] = [self._tell] if self._command is not None else []
        if self._plan.restarts:
            observers.append(hangs.observe)
        watch = Watch(runs, observers)
        watch.start()
        try:
            while job.poll() is None:
                self._pump(_WAIT_S)
                if hangs.hang is not None and self._stopped_by is None:
                    return self._end_hung(job, hangs.hang)
            if self._command is not None:
                watch.await_end(_LAST_ALERTS_S, self._is_interrupted)
            return self._code(job), None
        finally:
            watch.stop()
            watch.join(_JOINED_WITHIN_S)  # so that one thread less runs when the next attempt is forked
            self._run_ids = list(runs.ids)

    def _end_hung(self, job: Job, hang: Hang) -> tuple[int, Hang | None]:
        for file in hang.saved:
            say("hang-saved", file=str(file))
        say("job-is-ended", finding=hang.finding.title, after_s=self._plan.after_s)
        left = end_job(job, self._pump)
        if left:
            pids = ", ".join(str(process.pid) for process in left[:10])
            say("processes-live-on", pids=pids)
            while job.poll() is None:
                self._pump(_WAIT_S)
            return self._code(job), None
        return self._code(job), hang

    def _pause(self, restart: int) -> bool:
        """Wait before a restart; return False if a stop signal came meanwhile."""
        seconds = pause_s(restart, self._plan.first_pause_s)
        say("job-restarts", restart=restart, restarts=self._plan.restarts, pause_s=seconds)
        until = time.monotonic() + seconds
        while self._stopped_by is None and time.monotonic() < until:
            self._pump(_WAIT_S)
        return self._stopped_by is None

    def _end(self, returncode: int) -> int:
        """Wait for running commands, then end like the job: by its exit code or its signal."""
        until = time.monotonic() + TIMEOUT_S
        self._job = None
        while self._command is not None and self._command.busy and time.monotonic() < until:
            self._pump(_WAIT_S)
            if self._is_interrupted():
                self._command.abandon()
        ended_by = -returncode if returncode < 0 else 0
        if ended_by:
            die_of(ended_by)
            return 128 + ended_by
        return returncode

    def _code(self, job: Job) -> int:
        assert job.returncode is not None
        return job.returncode

    # -- signals

    def _pump(self, timeout_s: float) -> None:
        """Wait for a signal and pass it on to the job."""
        arrived = self._signals.wait(timeout_s)
        if arrived is None:
            return
        number, by_key = arrived
        if number in _STOPS:
            self._stopped_by = number
        job = self._job
        if job is None or job.returncode is not None:
            return
        if number == signal.SIGTSTP:
            job.send_group(signal.SIGTSTP)
            os.kill(os.getpid(), signal.SIGSTOP)
        elif number == signal.SIGCONT:
            job.send_group(signal.SIGCONT)
        elif not (by_key and job.shares_group):  # else the terminal has signalled the job itself
            job.send(number)

    def _is_interrupted(self) -> bool:
        self._pump(0.0)
        return self._stopped_by is not None

    # -- alerts, in the thread of Watch

    def _tell(self, client: Client, run_id: str, findings: Sequence[Finding]) -> None:
        assert self._command is not None
        for event, finding in self._tellers[run_id].events(findings):
            self._command.post(event, client, run_id, finding)
