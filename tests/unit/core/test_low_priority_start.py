"""How helpers start beside a training: at low priority, for a while, and at their own one after that."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from loaderwatch.core.detached_processes import spawn_detached, spawn_orphan
from loaderwatch.core.low_priority_start import NICE, machine_is_full
from tests.waiting import PATIENCE_S, wait_until

NOTED = """
import os, sys, threading, time
os.imported_at = {**getattr(os, "imported_at", {}), __name__: os.getpriority(os.PRIO_PROCESS, 0)}
"""
START = """
import os, sys
from loaderwatch.core.low_priority_start import import_gently
own = os.getpriority(os.PRIO_PROCESS, 0)
import_gently("first", "second", within_s=float(sys.argv[1]))
import first, second
niceness = [os.imported_at[name] - own for name in ("first", "second")]
print(*niceness, os.getpriority(os.PRIO_PROCESS, 0) - own)
"""


def started(folder: Path, within_s: float, **bodies: str) -> subprocess.CompletedProcess[str]:
    for name in ("first", "second"):
        (folder / f"{name}.py").write_text(NOTED + bodies.get(name, ""))
    return subprocess.run(
        [sys.executable, "-c", START, str(within_s)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


ROOT = Path(__file__).parents[3]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a whole process has one priority")


@LINUX
def test_modules_are_imported_at_low_priority_and_the_rest_runs_at_its_own(tmp_path: Path) -> None:
    assert started(tmp_path, PATIENCE_S).stdout == f"{NICE} {NICE} 0\n"


@LINUX
def test_what_takes_too_long_goes_on_at_the_own_priority(tmp_path: Path) -> None:
    """On a full machine the module in hand is finished, and the caller imports the others."""
    assert started(tmp_path, 0.01, first="time.sleep(1)").stdout == f"{NICE} 0 0\n"


SESSION = """
import time
from pathlib import Path
from loaderwatch.core.low_priority_start import restore_session
own = Path("/proc/self/autogroup")
for _ in range(1000):  # its parent may be a moment later
    if own.read_text().endswith("nice 10\\n"):
        break
    time.sleep(0.01)
restore_session()
print(own.read_text().split()[-1], flush=True)
"""


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="this kernel has no autogroups")
@pytest.mark.parametrize("start", [spawn_detached, spawn_orphan])
def test_a_helpers_session_is_nice_until_it_has_started(start: Callable[..., object], tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start(["-c", SESSION], log, {**os.environ, "PYTHONPATH": str(ROOT)})
    wait_until("the session is at its own priority", lambda: log.read_text() == "0\n")
    if isinstance(process, subprocess.Popen):
        process.wait(PATIENCE_S)


def test_what_cannot_be_imported_is_the_callers_error(tmp_path: Path) -> None:
    done = started(tmp_path, PATIENCE_S, second="raise ImportError('no such part')")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("no such part") == 2, "its line and the error, once"


@pytest.mark.parametrize(("waited", "full"), [("83.10", True), ("50.00", True), ("12.00", False)])
def test_a_machine_is_full_where_threads_wait_for_cpus(waited: str, full: bool, tmp_path: Path) -> None:
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "cpu").write_text(f"some avg10={waited} avg60=1.00 avg300=1.00 total=5\n")
    assert machine_is_full(tmp_path) == full


@pytest.mark.skipif(not hasattr(os, "getloadavg"), reason="needs a load average")
def test_where_nobody_counts_the_load_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for load, full in ((1000.0 * (os.cpu_count() or 1), True), (0.1, False)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, load, load))
        assert machine_is_full(tmp_path) == full
