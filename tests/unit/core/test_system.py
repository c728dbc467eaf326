"""Process ids that are in use."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from loaderwatch.core import system
from loaderwatch.core.system import pid_in_use


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
