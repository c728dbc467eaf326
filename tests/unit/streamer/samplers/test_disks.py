"""Which file system the job fills, over readings made by the test; and a real one."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from loaderwatch.streamer.samplers.disks import Disks, DiskSampler, Filling, read_spaces
from tests.waiting import PATIENCE_S, wait_until

MB = 1 << 20
S = 10**9
DISK = 10_000 * MB


class Job:
    """A job that is looked at every two seconds."""

    def __init__(self) -> None:
        self.disks = Disks()
        self.free, self.written, self.now = DISK, 0, 0
        self.found: Filling | None = None
        self.pass_time(1)

    def pass_time(self, looks: int, *, saves: int = 0, deletes: int = 0, others: int = 0) -> None:
        """Look ``looks`` times, each after so many megabytes were saved, deleted or written by others."""
        for _ in range(looks):
            self.now += 2 * S
            self.written += saves * MB
            self.free -= (saves + others - deletes) * MB
            self.found = self.disks.look(
                {"/data": (DISK, self.free), "/": (DISK, DISK)}, self.written, self.now
            )


def test_saves_that_all_stay() -> None:
    job = Job()
    for save in range(6):
        job.pass_time(1, saves=100)
        assert (job.found is not None) == (save >= 2)
        job.pass_time(4)
    assert job.found == Filling("/data", DISK, DISK - 600 * MB, 10 * MB, 100 * MB, 60.0)
    assert job.found.left_s == 940
    job.pass_time(20)  # no save for four times as long as usual
    assert job.found is None


def test_after_a_long_pause_it_is_seen_anew() -> None:
    job = Job()
    for _ in range(2):
        for _ in range(4):
            job.pass_time(1, saves=100)
            job.pass_time(4)
        assert job.found is not None
        assert (job.found.save_bytes, job.found.bytes_per_s, job.found.seen_s) == (100 * MB, 10 * MB, 40.0)
        job.pass_time(100)


def test_a_save_of_many_looks_is_one_save() -> None:
    job = Job()
    for _ in range(3):
        job.pass_time(5, saves=20)
        job.pass_time(5)
    assert job.found is not None
    assert (job.found.save_bytes, job.found.bytes_per_s) == (100 * MB, 5 * MB)


def test_a_disk_that_is_filled_without_a_pause() -> None:
    job = Job()
    job.pass_time(29, saves=10)
    assert job.found is None
    job.pass_time(1, saves=10)
    assert job.found == Filling("/data", DISK, DISK - 300 * MB, 5 * MB, None, 60.0)
    job.pass_time(1)
    assert job.found is None


def test_who_deletes_the_oldest_fills_nothing() -> None:
    job = Job()
    for save in range(10):
        job.pass_time(1, saves=100)
        job.pass_time(1, deletes=100 if save >= 3 else 0)
        job.pass_time(3)
    assert job.found is None


def test_what_others_write_is_not_the_jobs() -> None:
    job = Job()
    for _ in range(6):
        job.pass_time(1, others=100)
        job.pass_time(4)
    assert job.found is None


def test_little_is_a_log() -> None:
    job = Job()
    for _ in range(40):
        job.pass_time(1, saves=1)
        job.pass_time(3)
    assert job.found is None or job.found.save_bytes == 4 * MB


def test_a_job_that_begins_anew_is_judged_anew() -> None:
    job = Job()
    for _ in range(4):
        job.pass_time(1, saves=100)
        job.pass_time(4)
    assert job.found is not None
    job.written = 0
    job.pass_time(1)
    assert job.found is None


def test_the_file_systems_of_this_machine(tmp_path: Path) -> None:
    spaces = read_spaces()
    home = max((path for path in spaces if tmp_path.is_relative_to(path)), key=len)
    total, free = spaces[home]
    assert 0 < free <= total
    assert not any(path.startswith(("/proc", "/sys", "/dev/")) for path in spaces)


def test_a_look_that_hangs_is_not_joined_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    goes_on = threading.Event()

    def hang() -> dict[str, tuple[int, int]]:
        looks.append(1)
        goes_on.wait(PATIENCE_S)
        return {}

    monkeypatch.setattr("loaderwatch.streamer.samplers.disks.read_spaces", hang)
    sampler = DiskSampler()
    sampler.filling = known = Filling("/data", DISK, MB, 1.0, None, 60.0)
    for second in range(0, 10, 2):
        sampler.sample(0.0, second * S)
    wait_until("the look", lambda: looks)
    assert looks == [1]
    assert sampler.filling is known
    sampler.sample(0.0, 40 * S)
    assert sampler.filling is None
    goes_on.set()
    wait_until("its end", lambda: not sampler.looks)
    sampler.sample(0.0, 50 * S)
    wait_until("the next look", lambda: len(looks) == 2)
