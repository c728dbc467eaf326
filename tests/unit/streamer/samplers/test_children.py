"""The other threads and the descendants of a process, from its files in /proc."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loaderwatch.streamer.samplers.children import NOT_LOOKED, ChildrenSampler
from tests.waiting import wait_until

SECOND = 10**9
NOTHING = {
    "threads_switches_per_s": 0.0,
    "children_switches_per_s": 0.0,
    "children_cpu_ratio": 0.0,
    "children_ended": 0.0,
}


def write(
    proc: Path, name: str, *, cpu: int = 0, woken: int = 0, began: int = 5, children: str | None = ""
) -> None:
    """One process or thread of a made-up /proc: CPU in ticks, voluntary switches, start, and its children."""
    folder = proc / name
    folder.mkdir(parents=True, exist_ok=True)
    fields = ["S", *["0"] * 10, str(cpu), "0", *["0"] * 4, "1", "0", str(began), "0", "9"]
    (folder / "stat").write_text(f"1 (a program) {' '.join(fields)}\n")
    (folder / "status").write_text(f"Name: x\nvoluntary_ctxt_switches:\t{woken}\n")
    if "/task/" not in name:
        main = folder / "task" / name
        main.mkdir(parents=True, exist_ok=True)
        if children is not None:
            (main / "children").write_text(children)


def test_threads_and_descendants_without_the_workers(tmp_path: Path) -> None:
    def at(second: int) -> None:
        write(tmp_path, "1", children="20 30 ")
        write(tmp_path, "1/task/7", woken=3 * second)
        write(tmp_path, "1/task/8", woken=8 * second)
        write(tmp_path, "20", woken=100 * second, cpu=100 * second)  # a worker
        write(tmp_path, "30", children="31", woken=2 * second)
        write(tmp_path, "31", woken=5 * second, cpu=os.sysconf("SC_CLK_TCK") * second // 2)

    sampler = ChildrenSampler(1, tmp_path)
    at(0)
    assert sampler.look(0, {20}) == NOT_LOOKED | {"children_ended": 0.0}, "no rates yet"
    at(2)
    values = sampler.look(2 * SECOND, {20})
    assert values == {
        "threads_switches_per_s": 8.0,
        "children_switches_per_s": 5.0,
        "children_cpu_ratio": 0.5,
        "children_ended": 0.0,
    }
    assert sampler.look(3 * SECOND, {20}) == NOTHING


def test_a_child_that_is_new_counts_from_its_start(tmp_path: Path) -> None:
    sampler = ChildrenSampler(1, tmp_path)
    write(tmp_path, "1", children="30")
    write(tmp_path, "30", woken=1000)
    sampler.look(0, ())
    write(tmp_path, "30", woken=4, began=6)  # another process with the same pid
    assert sampler.look(SECOND, ())["children_switches_per_s"] == 4.0


def test_a_kernel_that_lists_no_children(tmp_path: Path) -> None:
    write(tmp_path, "1", children=None)
    sampler = ChildrenSampler(1, tmp_path)
    sampler.look(0, ())
    assert sampler.look(SECOND, ())["children_cpu_ratio"] is None


def test_a_process_that_has_ended(tmp_path: Path) -> None:
    sampler = ChildrenSampler(4711, tmp_path)
    assert sampler.look(0, ()) == NOT_LOOKED
    assert sampler.look(SECOND, ())["children_cpu_ratio"] is None


@pytest.fixture
def busy_child() -> Iterator[int]:
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield child.pid
    child.kill()
    child.wait()


@pytest.mark.skipif(
    not Path(f"/proc/self/task/{os.getpid()}/children").exists(), reason="a kernel that lists no children"
)
def test_a_real_child_that_computes(busy_child: int) -> None:
    sampler, now = ChildrenSampler(os.getpid()), 0
    sampler.look(now, ())

    def computes() -> bool:
        nonlocal now
        now += SECOND
        return float(sampler.look(now, ())["children_cpu_ratio"] or 0.0) > 0.0

    wait_until("the child's CPU time", computes)
    assert sampler.look(now + SECOND, {busy_child})["children_cpu_ratio"] == 0.0


@pytest.mark.skipif(
    not Path(f"/proc/self/task/{os.getpid()}/children").exists(), reason="a kernel that lists no children"
)
def test_a_real_child_that_has_ended_and_nobody_asked() -> None:
    sampler, now = ChildrenSampler(os.getpid()), 0
    others = sampler.look(now, ())["children_ended"]  # of tests before, in the same process
    assert others is not None
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    try:

        def ended() -> bool:
            nonlocal now
            now += SECOND
            return sampler.look(now, ())["children_ended"] == others + 1

        wait_until("the end of the child", ended)
    finally:
        child.wait()
    assert sampler.look(now + SECOND, ())["children_ended"] == others
