"""Samples of this process, which plays a training process: its open span decides what is sampled."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from loaderwatch.agent.process.readable_thread import publish_thread
from loaderwatch.core.facts import ProfileStack
from loaderwatch.core.records import TABLES, UNKNOWN, Phase, ProfilePart, ThreadState
from loaderwatch.core.ring import RingWriter
from loaderwatch.streamer.profile.sampler import Sampler, as_text
from loaderwatch.streamer.rings import RingFolder
from loaderwatch.streamer.roster import Roster
from tests.fakes.ring_writer import open_rings

SECOND = 10**9
COLUMNS = [column.name for column in TABLES["profile"]]
pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's process_vm_readv")


class Run:
    """Rings of this process, a roster that reads them, and a sampler."""

    def __init__(self, folder: Path, workers: int = 0) -> None:
        self.rings: list[RingWriter] = open_rings(folder / "rings", rank=3, workers=workers)
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
        return [dict(zip(COLUMNS, map(int, row), strict=True)) for row in rows], self.texts  # type: ignore[arg-type]


def spin() -> None:
    """Compute for 2 ms."""
    end = time.perf_counter() + 0.002
    while time.perf_counter() < end:
        pass


def nap() -> None:
    """Sleep for 6 ms."""
    time.sleep(0.006)


def both() -> None:
    """One share of each."""
    spin()
    nap()


def test_a_wait_without_workers_is_the_training_threads_fetch(tmp_path: Path) -> None:
    """Lines get their shares, and states are those of the lines."""
    run = Run(tmp_path)
    publish_thread(run.rings[0])
    run.rings[0].set_span(Phase.WAIT, time.monotonic_ns(), loader=0)
    rows = run.sample(both, 4)
    assert {(row["rank"], row["loader"], row["worker"], row["part"], row["readers"]) for row in rows} == {
        (3, 0, -1, ProfilePart.FETCH, 0)
    }
    functions = {text.id: text.text.splitlines()[1].rsplit(" ", 1)[1] for text in run.texts}
    samples: Counter[str] = Counter()
    sleeping = 0
    for row in rows:
        samples[functions.get(row["stack"], "?")] += row["samples"]
        if functions.get(row["stack"]) == "nap" and row["state"] == ThreadState.TIMER:
            sleeping += row["samples"]
    assert sum(samples.values()) > 20
    assert samples["nap"] > samples["spin"] > 0
    assert sleeping > 0  # on a full machine, a thread that has slept then waits for a CPU in the same line


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
        for after_s in (1, 10, 20, 330):
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
