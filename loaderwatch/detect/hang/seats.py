"""Where each rank stands while a run stands still."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loaderwatch.core.wire import StackDump
from loaderwatch.detect.limits import Limits
from loaderwatch.detect.measures.progress import Stuck, cpu_ratio, stack_of
from loaderwatch.detect.measures.stacks import Frame, collective, main_frames, user_frame
from loaderwatch.detect.window import RankWindow, RunWindow

STALE_NS = 10_000_000_000  # a host that has not been heard of for so long says nothing about its ranks
BUSY_CPU_RATIO = 0.3  # a process outside any loader that computes this much is at work


@dataclass(frozen=True)
class Seat:
    """Where one rank stands while the run stands still."""

    rank: RankWindow
    place: str  # "stuck" | "outside" | "moving" | "ended" | "crashed" | "unknown"
    frames: Sequence[Frame]
    dump: StackDump | None
    collective: str | None
    age_s: float
    epoch: int | None
    batches: int | None  # of that epoch, so far

    @property
    def number(self) -> int:
        """The rank's number."""
        return self.rank.rank

    @property
    def has_left(self) -> bool:
        """Whether it is out of its training epoch: outside, ended, or in another loader (validation)."""
        span = self.rank.span
        training = {loader.loader for loader in self.rank.process.loaders if loader.role == "train"}
        elsewhere = self.place == "stuck" and span is not None and span.loader not in training
        return self.place in ("outside", "ended") or elsewhere

    @property
    def stands(self) -> str:
        """Where it stands, in words."""
        if self.collective:
            return {"backward": "backward", "buffer sync": "the forward pass's buffer sync"}.get(
                self.collective, self.collective
            )
        where = user_frame(self.frames)
        phase = self.rank.span.phase if self.rank.span else "?"
        return str(where) if where else {"outside": "code outside the loop"}.get(phase, f"its {phase}")


def seats_of(window: RunWindow, found: list[Stuck], limits: Limits) -> list[Seat]:
    """One seat per rank; ``found`` are the ranks that are stuck outside their loaders."""
    stuck = {item.rank.rank: item for item in found}
    return [_seat(window, rank, stuck.get(rank.rank), limits) for rank in window.ranks.values()]


def _seat(window: RunWindow, rank: RankWindow, item: Stuck | None, limits: Limits) -> Seat:
    dump = stack_of(rank, -1, None)
    frames = main_frames(dump)
    span = rank.span
    age_s = (rank.made_ns - span.since_ns) / 1e9 if span else 0.0
    name = collective(frames) if dump is not None and span and dump.taken_ns >= span.since_ns else None
    epoch, batches = _position(rank)
    if rank.process.state == "crashed":
        place = "crashed"
    elif rank.process.state == "finished":
        place = "ended"
    elif item is not None:
        place = "stuck"
    elif window.now_ns - rank.made_ns > STALE_NS or span is None:
        place = "unknown"
    elif span.phase in ("outside", "teardown"):
        working = cpu_ratio(rank, span.pid, rank.made_ns - 5_000_000_000) > BUSY_CPU_RATIO
        patience = working and name is None and age_s < limits.first_factor * limits.hang_floor_s
        place = "moving" if patience else "outside"
    else:
        place = "moving"
    return Seat(rank, place, frames, dump, name, age_s, epoch, batches)


def _position(rank: RankWindow) -> tuple[int | None, int | None]:
    """Epoch of the training loader and batches delivered in it: of the open span, else of the epoch that ended last."""
    training = {loader.loader for loader in rank.process.loaders if loader.role == "train"}
    span = rank.span
    if span is not None and span.phase not in ("outside", "teardown") and span.loader in training:
        return span.epoch, None if span.batch is None else span.batch + 1
    ends = rank.table("epoch_ends")
    for row in range(ends["epoch"].size - 1, -1, -1):
        if int(ends["loader"][row]) in training:
            return int(ends["epoch"][row]), int(ends["batches"][row])
    return None, None
