"""The wall clock of processes jumps during a run: an hour ahead, an hour back."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import duckdb
import pytest

from loaderwatch.core.clock import SteadyClock, boot_ns
from loaderwatch.core.files import write_atomically
from tests.faults.cluster import Cluster, wait_for
from tests.faults.ledger import assert_balanced
from tests.faults.light import start_light, states_of_ranks

SOURCE = Path(__file__).with_name("wall_clock.c")
HOUR = 3600


class Clock:
    """A wall clock that a test sets; monotonic clocks are left alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.set(0)

    def set(self, ahead_s: int) -> None:
        """So many seconds ahead of the truth from now on."""
        write_atomically(self.path, str(ahead_s).encode())


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """What puts itself between a process and its wall clock."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    path = tmp_path / "wall_clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", path, SOURCE, "-ldl"], check=True, timeout=60)
    return path


@pytest.mark.long
def test_clocks_jump_both_ways(cluster: Cluster, tmp_path: Path, library: Path) -> None:
    """On one of two hosts and on the server: no rank is lost, no alert is raised, steps stay in order."""
    of_server, of_host = Clock(tmp_path / "server.clock"), Clock(tmp_path / "host.clock")
    cluster.server.start(LD_PRELOAD=str(library), WALL_CLOCK=str(of_server.path))
    jumpy = cluster.add_host("jumpy", LD_PRELOAD=str(library), WALL_CLOCK=str(of_host.path))
    steady = cluster.add_host("steady")
    start_light(jumpy, ranks=[0], world_size=2)
    start_light(steady, ranks=[1], world_size=2)
    wait_for(lambda: states_of_ranks(cluster) == ["live", "live"])
    seen: set[str] = set()
    for clocks, ahead_s, lasting_s in (
        ([of_host], HOUR, 3.0),
        ([of_server], HOUR, 3.0),  # a streamer looks at its clock every 5 s
        ([of_host, of_server], -HOUR, 2.0),
    ):
        for clock in clocks:
            clock.set(ahead_s)
        until = time.monotonic() + lasting_s
        while time.monotonic() < until:
            seen.update(states_of_ranks(cluster), [run["state"] for run in cluster.server.get("/runs")])
            time.sleep(0.1)
    assert cluster.server.get("/runs/run1/findings") == []
    cluster.settle()
    assert seen == {"live"}
    assert "the wall clock was set" in jumpy.log()
    cluster.server.stop()
    for path in (steady.books / "run1").iterdir():
        path.rename(jumpy.books / "run1" / path.name)
    runs = cluster.server.data_dir / "runs"
    assert_balanced(jumpy.books / "run1", runs, "run1")
    with duckdb.connect(str(runs / "run1.duckdb"), read_only=True) as connection:
        for rank in (0, 1):
            times = [
                t
                for (t,) in connection.execute(
                    f"SELECT request_ns FROM steps WHERE rank = {rank} ORDER BY batch"
                ).fetchall()
            ]
            assert times == sorted(times)
            assert times[-1] - times[0] < HOUR // 2 * 10**9


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """``wall[0]`` is added to the wall clock of this process."""
    ahead = [0]
    true_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: true_ns() + ahead[0])
    return ahead


def test_age_is_not_what_somebody_sets_a_clock_to(wall: list[int]) -> None:
    """``--retain-days`` asks this clock: a jump ahead by a month must not delete a month of runs."""
    clock = SteadyClock()
    began = clock.now_ns()
    wall[0] = 30 * 24 * HOUR * 10**9
    assert clock.now_ns() - began < 60 * 10**9
    wall[0] = -HOUR * 10**9
    assert began - clock.now_ns() > (HOUR - 60) * 10**9, "a clock that was corrected back makes runs younger"
    assert boot_ns() >= time.monotonic_ns() - 10**9
