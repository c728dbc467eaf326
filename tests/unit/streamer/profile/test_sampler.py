"""Samples of this process, which plays a training process: its open span decides what is sampled."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from loaderwatch.agent.process.readable_thread import publish_thread
from loaderwatch.core.facts import ProfileStack, StackDump
from loaderwatch.core.records import TABLES, UNKNOWN, Phase, ProfilePart, ThreadState
from loaderwatch.core.ring import RingWriter
from loaderwatch.streamer.profile import sampler
from loaderwatch.streamer.profile.sampler import Sampler, as_text
from loaderwatch.streamer.rings import RingFolder
from loaderwatch.streamer.roster import Roster
from tests.fakes.ring_writer import open_rings

SECOND = 10**9
COLUMNS = [column.name for column in TABLES["profile"]]
pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's process_vm_readv")


class Run:
    """Rings of this process, a roster that reads them, and a sampler."""

    def __init__(self, folder: Path, workers: int | None = 0) -> None:
        self.rings: list[RingWriter] = []  # of this process; None: another process has made its own
        if workers is not None:
            self.rings = open_rings(folder / "rings", rank=3, workers=workers)
        self.roster = Roster(RingFolder(folder / "rings", {}, folder / "aside"))
        self.sampler = Sampler(seed=1)
        self.usual_ns = {3: (0.0, 1e6)}

    def sample(self, work: Callable[[], None], seconds: float = 1.5) -> list[dict[str, int]]:
        """Work for a while under the sampler; return its rows."""
        self.roster.refresh(time.monotonic_ns())
        self.sampler.watch(self.roster, self.usual_ns)
        self.sampler.start()
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                work()
        finally:
            self.sampler.stop()
        return self.take()[0]

    def take(self) -> tuple[list[dict[str, int]], list[ProfileStack]]:
        """Return rows as dicts, and texts."""
        rows, self.texts = self.sampler.take(time.monotonic_ns(), 0, final=True)
        return [{name: int(row[at] or 0) for at, name in enumerate(COLUMNS)} for row in rows], self.texts


def nap() -> None:
    """Sleep for 6 ms."""
    time.sleep(0.006)


RANK = """
import sys, time
from pathlib import Path
from loaderwatch.agent.process.readable_thread import publish_thread
from loaderwatch.core.records import Phase
from tests.fakes.ring_writer import open_rings

def spin():
    end = time.perf_counter() + 0.004
    while time.perf_counter() < end:
        pass

def nap():
    time.sleep(0.012)

ring = open_rings(Path(sys.argv[1]), rank=3, workers=0)[0]
publish_thread(ring)
ring.set_span(Phase.WAIT, time.monotonic_ns(), loader=0)
print("ready", flush=True)
while True:
    spin()
    nap()
"""


def test_lines_and_states_are_those_of_the_process(tmp_path: Path) -> None:
    """A wait without workers is a fetch of the training thread. This one lies in another process."""
    child = subprocess.Popen(
        [sys.executable, "-c", RANK, str(tmp_path / "rings")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        run = Run(tmp_path, workers=None)
        rows = run.sample(lambda: time.sleep(0.1), 5)
    finally:
        child.kill()
        child.communicate()
    assert {(row["rank"], row["loader"], row["worker"], row["part"], row["readers"]) for row in rows} == {
        (3, 0, -1, ProfilePart.FETCH, 0)
    }
    functions = {text.id: text.text.splitlines()[1].rsplit(" ", 1)[1] for text in run.texts}
    samples: Counter[str] = Counter()
    states: dict[str, set[int]] = {}
    for row in rows:
        function = functions.get(row["stack"], "?")
        samples[function] += row["samples"]
        states.setdefault(function, set()).add(row["state"])
    # On a full machine the process may wait for a CPU in either line, so the shares have no limits here.
    assert samples["nap"] > 0
    assert samples["spin"] > 0
    assert ThreadState.TIMER in states["nap"]
    assert states["spin"] <= {ThreadState.RUNNING, ThreadState.RUNNABLE}


def test_the_worker_that_fetches_is_sampled(tmp_path: Path) -> None:
    """A worker that waits for indices is not, and the number of readers is counted."""
    run = Run(tmp_path, workers=3)
    for ring in run.rings[:3]:
        publish_thread(ring)
    run.rings[0].set_span(Phase.WAIT, time.monotonic_ns(), loader=0)
    run.rings[1].set_span(Phase.FETCH, time.monotonic_ns(), loader=0)
    run.rings[2].set_span(Phase.COLLATE, time.monotonic_ns(), loader=0)
    run.rings[3].set_span(Phase.IDLE, time.monotonic_ns(), loader=0)
    rows = run.sample(nap)
    assert {row["worker"] for row in rows} == {0, 1}
    assert all(row["readers"] == 2 * row["samples"] for row in rows)


@pytest.mark.parametrize(
    ("phase", "part"),
    [
        (Phase.ITER, ProfilePart.BOUNDARY),
        (Phase.TEARDOWN, ProfilePart.BOUNDARY),
        (Phase.STEP, ProfilePart.STEP),
        (Phase.USER, ProfilePart.STEP),
    ],
)
def test_the_part_follows_from_the_open_span(tmp_path: Path, phase: Phase, part: ProfilePart) -> None:
    """The training thread is the one that loses time."""
    run = Run(tmp_path, workers=1)
    publish_thread(run.rings[0])
    run.rings[0].set_span(phase, time.monotonic_ns(), loader=0)
    rows = run.sample(nap)
    assert {(row["part"], row["worker"]) for row in rows} == {(part, -1)}


def test_outside_counts_once_there_were_batches(tmp_path: Path) -> None:
    """Before the first batch the script begins; afterwards it keeps the next epoch waiting."""
    run = Run(tmp_path)
    publish_thread(run.rings[0])
    run.rings[0].set_span(Phase.OUTSIDE, time.monotonic_ns())
    assert run.sample(nap) == []
    run.sampler = Sampler(seed=1)
    run.rings[0].set_span(Phase.OUTSIDE, time.monotonic_ns(), batches=5)
    assert {(row["part"], row["loader"]) for row in run.sample(nap)} == {(ProfilePart.BOUNDARY, UNKNOWN)}


def test_a_model_that_computes_is_sampled_when_its_steps_become_longer(tmp_path: Path) -> None:
    """Else only about once a minute."""
    run = Run(tmp_path)
    publish_thread(run.rings[0])
    run.rings[0].set_span(Phase.FORWARD, time.monotonic_ns(), loader=0)
    assert sum(row["samples"] for row in run.sample(nap)) <= 1
    before, run.sampler = run.sampler, Sampler(seed=1)
    assert before is not run.sampler
    run.roster.refresh(time.monotonic_ns())
    run.sampler.watch(run.roster, {3: (0.0, 1e6)})
    run.usual_ns = {3: (0.0, 3e6)}
    rows = run.sample(nap)
    assert sum(row["samples"] for row in rows) > 5
    assert {row["part"] for row in rows} == {ProfilePart.STEP}


def test_a_process_that_published_no_thread_gives_no_sample(tmp_path: Path) -> None:
    """As an agent of an older version, or one on another system."""
    run = Run(tmp_path)
    run.rings[0].set_span(Phase.WAIT, time.monotonic_ns(), loader=0)
    assert run.sample(nap, 0.5) == []


def test_counts_come_every_ten_seconds_and_texts_once(tmp_path: Path) -> None:
    """A text is repeated after some minutes, because a server may have started since."""
    run = Run(tmp_path)
    publish_thread(run.rings[0])
    run.rings[0].set_span(Phase.WAIT, time.monotonic_ns(), loader=0)
    run.sampler.start()
    run.roster.refresh(time.monotonic_ns())
    run.sampler.watch(run.roster, {})
    stop = threading.Event()
    try:
        began = time.monotonic_ns()
        texts = []
        for after_s in (1, 10, 20, 930):
            stop.wait(0.7)
            rows, stacks = run.sampler.take(began + after_s * SECOND, 5, final=False)
            texts.append({stack.text for stack in stacks})
            if after_s == 1:
                assert rows == []
                assert stacks == []
            else:
                assert rows[0][COLUMNS.index("t_ns")] == began + after_s * SECOND + 5
    finally:
        run.sampler.stop()
    assert texts[1]
    assert not texts[1] & texts[2]
    assert texts[1] & texts[3]


def test_a_worker_loop_and_our_own_frames_are_left_out() -> None:
    """The frames below a worker's loop are the parent's at the fork."""
    stack = [
        ("/src/data.py", 5, "__getitem__"),
        ("/lib/torch/utils/data/_utils/fetch.py", 54, "fetch"),
        ("/lib/loaderwatch/agent/workers/fetch.py", 9, "timed"),
        ("/lib/torch/utils/data/_utils/worker.py", 349, "_worker_loop"),
        ("/src/train.py", 20, "<module>"),
    ]
    assert as_text(stack) == (
        "Stack (most recent call first):\n"
        '  File "/src/data.py", line 5 in __getitem__\n'
        '  File "/lib/torch/utils/data/_utils/fetch.py", line 54 in fetch\n'
    )


def test_where_memory_cannot_be_read_a_signal_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most every five seconds for each rank. The answer counts with the state before the signal."""
    monkeypatch.setattr(sampler, "LAYOUTS", {})
    run = Run(tmp_path)
    publish_thread(run.rings[0])
    run.rings[0].set_span(Phase.WAIT, time.monotonic_ns(), loader=0)
    assert run.sample(nap) == []
    (asked,) = run.sampler.asked()
    assert (asked.pid, asked.key.rank, asked.key.part) == (os.getpid(), 3, ProfilePart.FETCH)
    assert run.sampler.asked() == []
    text = (
        "Thread 0x01 (most recent call first):\n"
        '  File "/src/other.py", line 1 in run\n'
        "\n"
        "Current thread 0x02 (most recent call first):\n"
        '  File "/src/data.py", line 5 in __getitem__\n'
        '  File "/src/train.py", line 9 in <module>\n'
    )
    dump = StackDump(rank=3, worker=-1, pid=os.getpid(), taken_ns=0, text=text)
    run.sampler.answer(dump)
    run.sampler.answer(dump)
    rows, texts = run.take()
    assert [row["samples"] for row in rows] == [1]
    assert texts[0].text.splitlines()[1:] == [
        '  File "/src/data.py", line 5 in __getitem__',
        '  File "/src/train.py", line 9 in <module>',
    ]


def test_a_signal_without_an_answer_is_no_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dump then says why there is none."""
    monkeypatch.setattr(sampler, "LAYOUTS", {})
    run = Run(tmp_path)
    publish_thread(run.rings[0])
    run.rings[0].set_span(Phase.WAIT, time.monotonic_ns(), loader=0)
    run.sample(nap, 0.5)
    assert run.sampler.asked()
    run.sampler.answer(StackDump(rank=3, worker=-1, pid=os.getpid(), taken_ns=0, text="", why="no answer"))
    assert run.take() == ([], [])


def test_a_ring_that_is_closed_during_a_sample_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker ends with each epoch, and its ring is closed once everything was read. Other ranks go on."""
    run = Run(tmp_path, workers=1)
    publish_thread(run.rings[0])
    run.rings[0].set_span(Phase.WAIT, time.monotonic_ns(), loader=0)
    run.roster.refresh(time.monotonic_ns())
    (worker,) = run.roster.workers
    closed = threading.Event()

    def close() -> None:
        if not closed.is_set():
            worker.ring.reader.close()
            closed.set()
        nap()

    assert run.sample(close, 0.5) == []
    assert "ended" not in caplog.text
