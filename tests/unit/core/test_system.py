"""Process ids that are in use, and the CPUs that a process may use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loaderwatch.core import system
from loaderwatch.core.system import pid_in_use, usable_cpus


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
