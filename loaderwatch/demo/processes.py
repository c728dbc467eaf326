"""The demo's processes: their start, and their end without leftovers."""

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
    """A process in its own session. It ends together with its children, and Ctrl-C reaches only the demo."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], log: Path | None = None) -> None:
        """Start ``command``. Its output goes to a new, private ``log``, or without one to the terminal.

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
        """Copy the output to the terminal until the end is requested: torchrun then writes a traceback."""
        assert self._process.stdout is not None
        with self._process.stdout as output:
            while text := os.read(output.fileno(), 65536):
                if self._is_muted:
                    continue
                try:
                    sys.stdout.buffer.write(text)
                    sys.stdout.buffer.flush()
                except BrokenPipeError:  # the terminal is gone, but the training goes on
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
        """Ask the process to end; after at most ``patience_s`` seconds, kill it and its children."""
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
    """End the remaining ranks. torchrun gives each its own session, which includes its workers.

    The patience lets multiprocessing's resource tracker remove the semaphores of ended spawned workers.
    """
    for pid in pids:
        _signal_group(pid, signal.SIGTERM)
    wait_until(lambda: not any(_signal_group(pid, 0) for pid in pids), patience_s)
    for pid in pids:
        _signal_group(pid, signal.SIGKILL)


def wait_until(condition: Callable[[], bool], limit_s: float, every_s: float = 0.1) -> bool:
    """Wait until ``condition`` is true; return whether that happened within ``limit_s`` seconds."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True


def remove_rings(rings_dir: Path, limit_s: float = 10.0) -> None:
    """Let the streamer read the rings to their end and remove them; then remove the rest."""
    wait_until(lambda: not rings_dir.exists() or not any(rings_dir.rglob("*")), limit_s)
    shutil.rmtree(rings_dir, ignore_errors=True)


def _begin(log: Path) -> int:
    """Open an empty log for this user only, replacing any earlier one, and return its descriptor."""
    descriptor = opener(str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    if HAS_OWNERS:
        os.fchmod(descriptor, 0o600)
    return descriptor


def _signal_group(leader: int, signum: int) -> bool:
    """Send a signal to a process group; return whether the group exists."""
    try:
        os.killpg(leader, signum)
    except (ProcessLookupError, PermissionError):  # gone, or on macOS only zombies are left
        return False
    return True
