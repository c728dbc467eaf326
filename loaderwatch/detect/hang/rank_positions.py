"""Where the ranks stand while a run stands still: ranks with the same stack are one group, the outlier first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from loaderwatch.core.wire import StackDump
from loaderwatch.detect.finding import Evidence
from loaderwatch.detect.hang.seats import Seat, seats_of
from loaderwatch.detect.limits import Limits
from loaderwatch.detect.measures.progress import LOADER_PHASES, stack_of, stuck
from loaderwatch.detect.measures.stacks import main_frames, user_frame
from loaderwatch.detect.text import duration, listing
from loaderwatch.detect.window import RunWindow

STANDS_AFTER_S: Final = 5.0  # stacks are taken when a span is so old
DEFAULT_TIMEOUT_S: Final = {"nccl": 600.0, "gloo": 1800.0}
"""PyTorch's own (``torch.distributed.init_process_group``), where the run's is not known."""


@dataclass(frozen=True)
class Place:
    """Where some ranks stand. ``seats`` by rank; ``seat`` is the one that has stood there longest."""

    state: str  # "stands" | "moving" | "ended" | "crashed" | "unknown"
    collective: str | None
    stands: str  # "backward", "train.py:31 in prepare", "next(loader)"
    at: str | None  # the line of the user's code, where that is not what ``stands`` says
    seats: tuple[Seat, ...]

    @property
    def ranks(self) -> list[int]:
        """Who stands here."""
        return [seat.number for seat in self.seats]

    @property
    def seat(self) -> Seat:
        """The rank that has stood here longest."""
        return max(self.seats, key=lambda seat: seat.age_s)

    @property
    def dump(self) -> StackDump | None:
        """A stack of one of them; they are alike. Of a rank that waits for a worker, the worker's."""
        dumps = [dump for seat in self.seats if (dump := _worker_dump(seat) or seat.dump) is not None]
        return dumps[0] if dumps else None

    @property
    def text(self) -> str:
        """In words: "backward (train.py:33 in train)"."""
        return f"{self.stands} ({self.at})" if self.at else self.stands


def places_of(seats: Sequence[Seat], odd: int | None = None) -> list[Place]:
    """The seats grouped by collective and line: first the group of ``odd``, then the smallest, in none before in one."""
    groups: dict[tuple[str, str | None, str, str | None], list[Seat]] = {}
    for seat in sorted(seats, key=lambda seat: seat.number):
        groups.setdefault(_key(seat), []).append(seat)
    found = [Place(*key, tuple(group)) for key, group in groups.items()]
    return sorted(
        found,
        key=lambda place: (
            odd not in place.ranks,
            place.state != "crashed",
            len(place.seats),
            place.collective is not None,
            place.ranks[0],
        ),
    )


def _key(seat: Seat) -> tuple[str, str | None, str, str | None]:
    if seat.place in ("crashed", "ended"):
        return seat.place, None, seat.place, None
    if seat.place == "unknown":
        return "unknown", None, "not heard of", None
    if seat.age_s < STANDS_AFTER_S:
        return "moving", None, "goes on", None
    span = seat.rank.span
    if span is not None and span.phase in LOADER_PHASES:
        where = user_frame(main_frames(_worker_dump(seat)))
        stands = "next(loader)" if span.phase == "wait" else f"{span.phase} of its loader"
        return "stands", None, stands, f"worker at {where}" if where else None
    where = user_frame(seat.frames) if seat.collective else None
    return "stands", seat.collective, seat.stands, str(where) if where else None


def _worker_dump(seat: Seat) -> StackDump | None:
    """Where the worker stands whose batch a rank waits for, if one was asked for its stack."""
    span = seat.rank.span
    if span is None or span.phase not in LOADER_PHASES or span.awaited_worker is None:
        return None
    pids = [worker.pid for worker in seat.rank.workers if worker.worker == span.awaited_worker]
    return stack_of(seat.rank, span.awaited_worker, pids[0]) if pids else None


def places(window: RunWindow, limits: Limits) -> list[Place]:
    """Where all ranks stand now; none while no rank is stuck, or when there is but one."""
    found = [item for rank in window.ranks.values() if (item := stuck(rank, limits)) is not None]
    found = [item for item in found if item.span.phase != "outside"]
    if not found or len(window.ranks) < 2:
        return []
    odd = next((item.rank.rank for item in found if item.span.phase in LOADER_PHASES), None)
    return places_of(seats_of(window, found, limits), odd)


def without_stack(window: RunWindow) -> list[int]:
    """Ranks that have stood still for a while and of which no stack is known since."""
    found = []
    for rank in window.ranks.values():
        span, dump = rank.span, stack_of(rank, -1, None)
        if span is None or rank.process.state != "live" or not span.alive:
            continue
        old = rank.made_ns - span.since_ns >= STANDS_AFTER_S * 1e9
        if old and (dump is None or dump.taken_ns < span.since_ns):
            found.append(rank.rank)
    return found


def place_evidence(found: Sequence[Place]) -> list[Evidence]:
    """One line for each group."""
    return [
        Evidence(
            label=f"{names(place.ranks)} stand{'s' if len(place.ranks) == 1 else ''} in",
            value=place.text,
            unit="text",
        )
        for place in found[:16]
    ]


def names(ranks: Sequence[int]) -> str:
    """ "rank 3", "ranks 0, 2 and 5"."""
    return f"rank{'s' if len(ranks) > 1 else ''} {listing([str(rank) for rank in sorted(ranks)])}"


@dataclass(frozen=True)
class Patience:
    """When the first collective gives up, and with it the job."""

    left_s: float
    timeout_s: float
    known: bool  # the run's own setting, not PyTorch's default

    @property
    def sentence(self) -> str:
        """In words."""
        whose = "" if self.known else ", PyTorch's default"
        after = f"its timeout of {duration(self.timeout_s)}{whose}"
        if self.left_s <= 0:
            return f"The collective should have been given up by now, after {after}."
        return f"In {duration(self.left_s)} the collective is given up, after {after}, and the job dies."


def patience(seats: Sequence[Seat]) -> Patience | None:
    """Of the rank that has waited in a collective longest; None when none waits or the backend is not known.

    A rank has entered its collective when its span began or later, so it may be a little more.
    """
    found: list[Patience] = []
    for seat in seats:
        process = seat.rank.process
        default_s = next(
            (s for name, s in DEFAULT_TIMEOUT_S.items() if name in (process.backend or "")), None
        )
        timeout_s = process.collective_timeout_s or default_s
        if seat.collective is not None and timeout_s is not None:
            known = process.collective_timeout_s is not None
            found.append(Patience(timeout_s - seat.age_s, timeout_s, known))
    return min(found, key=lambda one: one.left_s, default=None)
