"""The timers of a sample: when they fire, and when they do not."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from loaderwatch.agent.workers.deadline import (
    GRACE_S,
    OWN_CODE,
    RENEW_NS,
    Deadline,
    Line,
    Overrun,
    Signals,
    can_be_timed,
    standing,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's timers")

LIMIT_NS = 50_000_000


@pytest.fixture
def signals() -> Signals:
    return Signals(*(signal.SIGRTMAX - offset for offset in (7, 6, 5)))


@pytest.fixture
def deadline(signals: Signals) -> Iterator[Deadline]:
    # Collect leftovers of other tests now: this waits for their workers, where an interrupt would arrive.
    gc.collect()
    made = Deadline(signals)
    yield made
    made.rest()
    signal.signal(signals.interrupt, signal.SIG_DFL)


def test_this_system_has_timers() -> None:
    assert can_be_timed()


def test_the_stack_is_written_long_after_an_interruption_and_long_before_the_next() -> None:
    """Else it shows the line that catches the interruption, and not the one that the sample stands at."""
    after_ns = int(GRACE_S * 1e9) % RENEW_NS
    assert min(after_ns, RENEW_NS - after_ns) >= 500_000_000


def read(deadline: Deadline) -> None:
    deadline.begin(3, LIMIT_NS)
    time.sleep(1000)


def test_a_long_sample_is_interrupted_where_it_stands(deadline: Deadline) -> None:
    with pytest.raises(Overrun):
        read(deadline)
    assert deadline.has_fired
    assert deadline.stood.startswith(f"{__file__}:")
    assert deadline.stood.endswith(" in read")
    assert deadline.end() > 0
    assert not deadline.has_fired


def test_each_sample_has_the_whole_time(deadline: Deadline) -> None:
    for index in range(4):
        deadline.begin(index, 40 * LIMIT_NS)  # two seconds
        time.sleep(0.6)
        deadline.end()
    time.sleep(0.3)  # no sample, though the timer fires
    with pytest.raises(Overrun):
        read(deadline)


def test_what_comes_after_the_samples_has_no_timer(deadline: Deadline, signals: Signals) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signals.interrupt])
    try:
        deadline.begin(0, LIMIT_NS)
        deadline.end()
        assert signal.sigtimedwait([signals.interrupt], 10) is not None
        deadline.begin(0, LIMIT_NS)
        deadline.rest()
        assert signal.sigtimedwait([signals.interrupt], 0.2) is None
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signals.interrupt])


def test_swallowed_once_it_comes_again(deadline: Deadline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loaderwatch.agent.workers.deadline.RENEW_NS", 20 * LIMIT_NS)
    with pytest.raises(Overrun):
        read(deadline)
    with pytest.raises(Overrun):
        time.sleep(1000)


def test_another_thread_and_a_child_are_not_watched(deadline: Deadline) -> None:
    asked: list[bool] = []
    thread = threading.Thread(target=lambda: asked.extend([deadline.is_here, deadline.is_elsewhere]))
    thread.start()
    thread.join()
    assert asked == [False, True]
    assert (deadline.is_here, deadline.is_elsewhere) == (True, False)
    deadline.begin(0, 10**12)
    assert not deadline.is_here  # inside a sample
    deadline.rest()
    child = os.fork()
    if not child:
        os._exit(deadline.is_here or deadline.is_elsewhere)
    assert os.waitpid(child, 0)[1] == 0


def test_where_a_stack_stands() -> None:
    own, library = Line("/home/me/data.py", 33, "read"), Line(threading.__file__, 4, "wait")
    assert standing([own]) == "/home/me/data.py:33 in read"
    assert standing([library, own]) == "/home/me/data.py:33 in read, inside threading.py:4 in wait"
    assert standing([library]) == f"{threading.__file__}:4 in wait"
    assert standing([]) == OWN_CODE
