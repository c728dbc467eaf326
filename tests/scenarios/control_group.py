"""A control group of one's own with a limit on CPU or memory, where the machine lets us make one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

PERIOD_US = 100_000
ROOT = Path("/sys/fs/cgroup")
PREFIX = "loaderwatch-test-"
JANITOR_S = 180.0
FILES = {"cpu": ("cpu.max", "cpu.cfs_quota_us"), "memory": ("memory.max", "memory.limit_in_bytes")}


def why_not(controller: str = "cpu") -> str | None:
    """Why no group with a limit can be made here; None if one can."""
    try:
        folder = _make(controller)
    except OSError as error:
        return f"no control group that limits {controller} can be made here: {error}"
    folder.rmdir()
    return None


def join_cpu_group(quota_cpus: float) -> None:
    """Move this process into a new group that may use so many CPUs; the group goes when its last process has.

    Raises:
        OSError: not here.
    """
    folder = _make("cpu")
    quota_us = int(quota_cpus * PERIOD_US)
    if (folder / "cpu.max").exists():
        (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
    else:
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
    _join(folder)


def join_memory_group(limit_bytes: int) -> None:
    """The same for memory, page cache included."""
    folder = _make("memory")
    _limit_file(folder, "memory").write_text(str(limit_bytes))
    _join(folder)


def _make(controller: str) -> Path:
    """A new group: below the controller's own hierarchy (v1), or below the common one (v2)."""
    old = ROOT / controller
    folder = (old if old.is_dir() else ROOT) / f"{PREFIX}{os.getpid()}"
    folder.mkdir()
    try:
        _limit_file(folder, controller)
    except OSError:
        folder.rmdir()
        raise
    return folder


def _limit_file(folder: Path, controller: str) -> Path:
    for name in FILES[controller]:
        if (folder / name).exists():
            return folder / name
    raise OSError(f"the {controller} controller is not enabled for new groups")


def _join(folder: Path) -> None:
    # Outside the group and our process group, and without our environment: it must survive us being killed.
    subprocess.Popen(
        [sys.executable, "-m", "tests.scenarios.control_group", str(folder)],
        cwd=Path(__file__).resolve().parents[2],
        env={"PATH": os.environ.get("PATH", "")},
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    (folder / "cgroup.procs").write_text(str(os.getpid()))


def _remove_when_empty(folder: Path) -> None:
    until = time.monotonic() + JANITOR_S
    time.sleep(2.0)  # until it has been joined
    while time.monotonic() < until and (folder / "cgroup.procs").read_text().strip():
        time.sleep(0.25)
    with contextlib.suppress(OSError):
        folder.rmdir()


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        _remove_when_empty(Path(sys.argv[1]))
