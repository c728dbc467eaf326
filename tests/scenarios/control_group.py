"""A control group of one's own with a CPU quota, where the machine lets us make one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

PERIOD_US = 100_000
ROOT_V1 = Path("/sys/fs/cgroup/cpu")
ROOT_V2 = Path("/sys/fs/cgroup")
PREFIX = "loaderwatch-test-"
JANITOR_S = 180.0


def why_not() -> str | None:
    """Why no group can be made here; None if one can."""
    try:
        folder = _make()
    except OSError as error:
        return f"no control group with a CPU quota can be made here: {error}"
    folder.rmdir()
    return None


def join_cpu_group(quota_cpus: float) -> None:
    """Move this process into a new group that may use so many CPUs; it goes when its last process has.

    Raises:
        OSError: not here.
    """
    folder = _make()
    # Outside the group and our process group, and without our environment: it outlives whatever kills us by one of them.
    subprocess.Popen(
        [sys.executable, "-m", "tests.scenarios.control_group", str(folder)],
        cwd=Path(__file__).resolve().parents[2],
        env={"PATH": os.environ.get("PATH", "")},
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    quota_us = int(quota_cpus * PERIOD_US)
    if (folder / "cpu.max").exists():
        (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
    else:
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
    (folder / "cgroup.procs").write_text(str(os.getpid()))


def _make() -> Path:
    root = ROOT_V1 if (ROOT_V1 / "cpu.cfs_quota_us").exists() else ROOT_V2
    folder = root / f"{PREFIX}{os.getpid()}"
    folder.mkdir()
    if not any((folder / name).exists() for name in ("cpu.max", "cpu.cfs_quota_us")):
        folder.rmdir()
        raise OSError("the CPU controller is not enabled for new groups")
    return folder


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
