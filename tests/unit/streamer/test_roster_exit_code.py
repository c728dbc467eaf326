"""How a process that is not our child ended, asked of the real kernel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loaderwatch.streamer.roster import Handle

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux's pidfd")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_signal_of_a_process_that_nobody_has_collected(number: signal.Signals) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    handle = Handle(child.pid)
    assert handle.exit_code() is None
    child.send_signal(number)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert handle.exit_code() == -number
    child.wait()
    handle.close()
    assert handle.exit_code() is None


def test_a_collected_process_is_known_or_unknown_but_never_wrong() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    handle = Handle(child.pid)
    child.kill()
    child.wait()
    known = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2]) >= (6, 15)
    time.sleep(0.05)
    assert handle.exit_code() == (-signal.SIGKILL if known else None)
    handle.close()


def test_who_is_gone_or_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert Handle(child.pid).exit_code() is None
    mine = Handle(os.getpid(), tmp_path)
    assert mine.exit_code() is None
    mine.close()
