"""Process ids in use, the CPUs that a process may use, and what it waits for according to the kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loaderwatch.core import system
from loaderwatch.core.system import (
    ANSWER_FUNCTIONS,
    CHILD_FUNCTIONS,
    LOCK_FUNCTIONS,
    PIPE_FUNCTIONS,
    SOCKET_FUNCTIONS,
    TIMER_FUNCTIONS,
    pid_in_use,
    usable_cpus,
    waits_in,
)


@pytest.mark.parametrize("has_owners", [True, False])
def test_an_id_is_in_use_as_long_as_its_process(monkeypatch: pytest.MonkeyPatch, has_owners: bool) -> None:
    monkeypatch.setattr(system, "HAS_OWNERS", has_owners)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert pid_in_use(child.pid)
    assert pid_in_use(os.getpid())
    child.communicate()
    assert not pid_in_use(child.pid)


def test_what_no_process_has_is_not_in_use() -> None:
    assert pid_in_use(1)  # often another user's
    assert not pid_in_use(10**30)


@pytest.mark.parametrize(("quota", "cpus"), [("50000 100000", 0.5), ("max 100000", None), ("none", None)])
def test_a_container_s_quota_bounds_the_cpus(tmp_path: Path, quota: str, cpus: float | None) -> None:
    has = usable_cpus(tmp_path)
    assert has >= 1
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cpu.max").write_text(quota)
    assert usable_cpus(tmp_path) == (cpus or has)


GROUPS = {
    "lock": LOCK_FUNCTIONS,
    "timer": TIMER_FUNCTIONS,
    "socket": SOCKET_FUNCTIONS,
    "pipe": PIPE_FUNCTIONS,
    "child": CHILD_FUNCTIONS,
    "answer": ANSWER_FUNCTIONS,
}


@pytest.mark.parametrize(
    ("wchan", "groups"),
    [
        ("futex_wait_queue", {"lock"}),
        ("futex_wait_queue_me", {"lock"}),
        ("futex_do_wait", {"lock"}),  # since Linux 6.14 or so; no child is waited for
        ("do_wait", {"child", "answer"}),
        ("locks_lock_inode_wait", {"lock"}),
        ("hrtimer_nanosleep", {"timer"}),
        ("anon_pipe_read", {"pipe", "answer"}),
        ("unix_stream_read_generic", {"socket", "answer"}),
        ("poll_schedule_timeout.constprop.0", {"answer"}),
        ("folio_wait_bit_common", set()),
        ("0", set()),
        (None, set()),
    ],
)
def test_what_a_process_waits_for(wchan: str | None, groups: set[str]) -> None:
    assert {name for name, functions in GROUPS.items() if waits_in(functions, wchan)} == groups
