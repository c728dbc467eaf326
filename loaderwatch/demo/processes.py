"""The demo's processes: how they are started, and how they are ended without leftovers."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from loaderwatch.core.files import opener
from loaderwatch.core.system import HAS_OWNERS


class Group:
    """A process in a session of its own.

    It ends together with its children, and Ctrl-C reaches only the demo.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], log: Path | None = None) -> None:
        """Start ``command``.

        Its output goes to ``log``, begun anew for this user alone, or to the terminal without one.

        Raises:
            OSError: the command cannot be started.
        """
        self.log = log
        self._is_muted = False
        output = _begin(log) if log else None
        try:
            self._process = subprocess.Popen(
                command,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if output is None else output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            if output is not None:
                os.close(output)
        self._relay = threading.Thread(target=self._copy_output, name="demo-output", daemon=True)
        if self._process.stdout is not None:
            self._relay.start()

    def _copy_output(self) -> None:
        """Copy the process's output to the terminal until it is told to end.

        torchrun answers that with a traceback, which nobody needs.
        """
        assert self._process.stdout is not None
        with self._process.stdout as output:
            while text := os.read(output.fileno(), 65536):
                if self._is_muted:
                    continue
                try:
                    sys.stdout.buffer.write(text)
                    sys.stdout.buffer.flush()
                except BrokenPipeError:  # nobody reads the terminal's end any more; the training goes on
                    self._is_muted = True

    def exit_code(self) -> int | None:
        """Return the exit code; None while the process runs."""
        return self._process.poll()

    def wait(self) -> int:
        """Wait for the process's end, show its last output, and return the exit code."""
        code = self._process.wait()
        if self._relay.is_alive():
            self._relay.join(timeout=5)
        return code

    def end(self, patience_s: float = 10.0) -> None:
        """Ask the process to end; after ``patience_s`` seconds at most, kill it and its children."""
        self._is_muted = True
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(patience_s)
        _signal_group(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def last_words(self, lines: int = 15) -> str:
        """Return the last lines of the log; an empty text without a log."""
        if self.log is None or not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def end_ranks(pids: Sequence[int], patience_s: float = 5.0) -> None:
    """End what is left of the ranks: torchrun gives each a session of its own, with its workers in it.

    Patience is for multiprocessing's resource tracker: it removes the semaphores of spawned workers once they
    are gone.
    """
    for pid in pids:
        _signal_group(pid, signal.SIGTERM)
    wait_until(lambda: not any(_signal_group(pid, 0) for pid in pids), patience_s)
    for pid in pids:
        _signal_group(pid, signal.SIGKILL)


def wait_until(condition: Callable[[], bool], limit_s: float, every_s: float = 0.1) -> bool:
    """Wait until ``condition`` is true; return whether it became so within ``limit_s`` seconds."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True


def remove_rings(rings_dir: Path, limit_s: float = 10.0) -> None:
    """Give the streamer time to read the rings to their end and remove them; then remove what is left."""
    wait_until(lambda: not rings_dir.exists() or not any(rings_dir.rglob("*")), limit_s)
    shutil.rmtree(rings_dir, ignore_errors=True)


def _begin(log: Path) -> int:
    """Open an empty log for this user alone, and return its descriptor.

    It does not matter what an earlier demo has left in its place.
    """
    descriptor = opener(str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    if HAS_OWNERS:
        os.fchmod(descriptor, 0o600)
    return descriptor


def _signal_group(leader: int, signum: int) -> bool:
    """Send a signal to a process group; return whether there was one to get it."""
    try:
        os.killpg(leader, signum)
    except (ProcessLookupError, PermissionError):  # gone; or, on macOS, only zombies are left
        return False
    return True
