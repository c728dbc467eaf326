"""Events that call a GPU starved which NVML shows busy are not believed; all others are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pytest

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.facts import ProcessInfo
from loaderwatch.core.records import RECORD_FIELDS, UNKNOWN, RecordKind
from loaderwatch.streamer.samplers.gpu import GpuSampler
from loaderwatch.streamer.samplers.other_streams import OtherStreams

MS: Final = SECOND_NS // 1000
FIELDS: Final = ("rank", *RECORD_FIELDS[RecordKind.GPU_WAIT])
OFFSET: Final = 10**18  # UTC less monotonic
READING_MS: Final = 500


@dataclass
class Played:
    """Iterations of a rank, and NVML's readings beside them, which are means over the half second before."""

    alone: bool = True
    rank: int = 0
    now_ms: float = 0.0
    streams: OtherStreams = field(default_factory=OtherStreams)
    out: list[dict[str, int]] = field(default_factory=list)
    busy: list[tuple[float, float]] = field(default_factory=list)
    _read_ms: float = 0.0
    _kept: list[tuple[int, ...]] = field(default_factory=list)

    def iterate(self, seconds: float, *, starved: float, took: float, busy: float) -> Played:
        """Iterations of ``took`` ms for so many seconds: what events say, and the true time of the GPU."""
        until = self.now_ms + seconds * 1000
        while self.now_ms < until:
            self.busy.append((self.now_ms + took - busy, self.now_ms + took))
            values = dict.fromkeys(FIELDS, UNKNOWN) | {
                "rank": self.rank,
                "loader": 0,
                "request_ns": int(self.now_ms * MS) + OFFSET,
                "starved_ns": int(starved * MS),
                "gpu_step_ns": int((took - starved) * MS),
                "slack_ns": 0,
                "gpu_forward_ns": 1,
            }
            self._kept.append(tuple(values[name] for name in FIELDS))
            self.now_ms += took
            while self._read_ms <= self.now_ms:
                self._read()
        return self

    def _read(self) -> None:
        since = self._read_ms - READING_MS
        self.busy = [stretch for stretch in self.busy if stretch[1] > since]
        worked = sum(max(0.0, min(end, self._read_ms) - max(begin, since)) for begin, end in self.busy)
        self.streams.see(self.rank, int(self._read_ms * MS), worked / READING_MS, alone=self.alone)
        self._read_ms += 100
        if not self._read_ms % 500:
            rows, self._kept = self._kept, []
            self.out += [dict(zip(FIELDS, row, strict=True)) for row in self.streams.believed(rows, OFFSET)]

    def share(self, last_s: float) -> float:
        """The share of the last seconds that counts as starved."""
        since_ns = int((self.now_ms - last_s * 1000) * MS) + OFFSET
        rows = [row for row in self.out if row["request_ns"] >= since_ns]
        whole = sum(row["starved_ns"] + row["gpu_step_ns"] for row in rows)
        return sum(row["starved_ns"] for row in rows) / whole


@pytest.mark.parametrize(
    ("took", "truth"), [(95, 0.05), (90, 0.0), (200, 0.55)], ids=["95 ms", "60 ms", "200 ms"]
)
def test_a_gpu_that_works_on_another_stream_does_not_starve_for_all_of_the_wait(
    took: float, truth: float
) -> None:
    played = Played().iterate(30, starved=took - 3, took=took, busy=90)
    assert played.share(15) == pytest.approx(truth, abs=0.02)
    assert played.streams.ranks == {0}
    newest = played.out[-1]
    assert newest["slack_ns"] == newest["gpu_forward_ns"] == UNKNOWN
    assert newest["starved_ns"] + newest["gpu_step_ns"] == pytest.approx(took * MS, abs=1)


def test_within_four_seconds_it_is_known() -> None:
    played = Played().iterate(30, starved=92, took=95, busy=90)
    first = next(row for row in played.out if row["starved_ns"] < 90 * MS)
    assert first["request_ns"] - played.out[0]["request_ns"] < 4 * SECOND_NS


@pytest.mark.parametrize("took", [91, 95, 100, 150, 200, 1000])
def test_events_of_the_stream_that_computes_are_believed(took: float) -> None:
    played = Played().iterate(30, starved=took - 90, took=took, busy=90)
    assert played.share(30) == pytest.approx((took - 90) / took, abs=0.001)
    assert not played.streams.ranks
    assert {row["slack_ns"] for row in played.out} == {0}


def test_starving_that_begins_or_ends_is_believed_at_once() -> None:
    played = Played()
    for _ in range(3):
        played.iterate(12, starved=0, took=90, busy=90).iterate(12, starved=110, took=200, busy=90)
        played.iterate(4, starved=1910, took=2000, busy=90)
    assert sum(row["slack_ns"] == UNKNOWN for row in played.out) == 0


def test_a_gpu_that_idles_for_something_else_as_well_says_nothing_against_its_events() -> None:
    played = Played().iterate(30, starved=40, took=200, busy=50)
    assert played.share(30) == pytest.approx(0.2, abs=0.001)


def test_a_gpu_that_others_use_says_nothing_against_its_events() -> None:
    played = Played(alone=False).iterate(30, starved=110, took=200, busy=190)
    assert played.share(30) == pytest.approx(0.55, abs=0.001)


def test_who_returns_to_the_stream_is_believed_again() -> None:
    played = Played().iterate(20, starved=92, took=95, busy=90).iterate(20, starved=5, took=95, busy=90)
    assert played.streams.ranks == set()
    assert played.share(5) == pytest.approx(5 / 95, abs=0.001)


def test_without_readings_events_are_believed() -> None:
    row = tuple({**dict.fromkeys(FIELDS, 0), "starved_ns": 90 * MS}[name] for name in FIELDS)
    assert OtherStreams().believed([row]) == [row]


def test_the_process_is_described_as_one_that_computes_elsewhere() -> None:
    sampler = GpuSampler()
    sampler._streams = Played().iterate(30, starved=92, took=95, busy=90).streams
    processes = [
        ProcessInfo(pid=9, rank=rank, local_rank=rank, world_size=2, started_ns=0) for rank in (0, 1)
    ]
    assert [process.other_stream for process in sampler.annotate(processes)] == [True, False]


def test_the_first_seconds_wait_for_nvml_where_they_may_be_wrong() -> None:
    """Its first readings come when the training process has been found on its GPU."""

    def row(at_s: float, starved_ms: int) -> tuple[int, ...]:
        values = dict.fromkeys(FIELDS, 0) | {
            "request_ns": int(at_s * SECOND_NS),
            "starved_ns": starved_ms * MS,
            "gpu_step_ns": (100 - starved_ms) * MS,
        }
        return tuple(values[name] for name in FIELDS)

    seen, unseen = OtherStreams(), OtherStreams()
    assert OtherStreams().believed([row(0, 5)], hold=True) == [row(0, 5)]
    for tenth in range(25):
        assert seen.believed([row(tenth / 10, 97)], hold=True) == []
        if tenth >= 5:
            seen.see(0, (tenth + 1) * SECOND_NS // 10, 0.95, alone=True)
    for tenth in range(25, 40):
        seen.see(0, (tenth + 1) * SECOND_NS // 10, 0.95, alone=True)
    assert seen.waiting == {0}
    sampler = GpuSampler()
    sampler._streams = seen
    rank = ProcessInfo(pid=9, rank=0, local_rank=0, world_size=1, started_ns=0)
    assert [process.other_stream for process in sampler.annotate([rank])] == [None]
    released = seen.believed([row(2.5, 97)], hold=True)
    assert [process.other_stream for process in sampler.annotate([rank])] == [True]
    assert len(released) == 26
    starved_ms = [values[FIELDS.index("starved_ns")] / MS for values in released]
    assert starved_ms == pytest.approx([5.0] * 26, abs=0.5)
    for tenth in range(105):
        given = unseen.believed([row(tenth / 10, 97)], hold=True)
        assert len(given) == (0 if tenth <= 100 else 102 if tenth == 101 else 1)
    assert unseen.believed([], hold=False) == []


def test_the_last_rows_of_a_run_are_not_kept() -> None:
    streams = OtherStreams()
    values = dict.fromkeys(FIELDS, 0) | {"starved_ns": 97 * MS, "gpu_step_ns": 3 * MS}
    row = tuple(values[name] for name in FIELDS)
    assert streams.believed([row], hold=True) == []
    assert streams.held == [row]
    assert streams.believed([], hold=False) == [row]
    assert streams.held == []
