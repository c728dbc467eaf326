"""The places of ranks in a standstill: ranks with the same stack form one group, the outlier first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from loaderwatch.core.answers import Evidence, Param, PlaceState, Text
from loaderwatch.core.facts import OPEN_SPAN, StackDump
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import observed
from loaderwatch.detect.hang.loader_hang_causes import loader_name
from loaderwatch.detect.measures.progress import (
    LOADER_PHASES,
    Stuck,
    cpu_ratio,
    dump_now,
    is_stopped,
    stack_of,
    waits_in_kernel,
)
from loaderwatch.detect.measures.stacks import (
    Frame,
    collective,
    ends_interpreter,
    main_frames,
    runs_program,
    user_frame,
)
from loaderwatch.detect.shared_thresholds import BUSY_CPU_RATIO, Limits
from loaderwatch.detect.window import RankWindow, RunWindow

STANDS_AFTER_S: Final = threshold(5.0, "s", "the streamer takes the stack of a span that is this old")
NCCL_TIMEOUT_S: Final = threshold(600.0, "s", "PyTorch: the default of init_process_group with NCCL")
GLOO_TIMEOUT_S: Final = threshold(1800.0, "s", "PyTorch: the default of init_process_group with gloo")
# Timeouts by backend, for runs whose own timeout is unknown.
DEFAULT_TIMEOUT_S: Final = {"nccl": NCCL_TIMEOUT_S, "gloo": GLOO_TIMEOUT_S}
MOST_PLACES: Final = threshold(4, "places", "chosen: one sentence names so many places and counts the others")
STALE_NS: Final = threshold(
    10_000_000_000, "ns", "chosen: a host that has been silent for so long says nothing about its ranks"
)


PositionKind: TypeAlias = Literal["stuck", "outside", "moving", "ended", "crashed", "unknown"]
# The fields of a Place without its positions: positions with equal fields are in one place.
_Spot: TypeAlias = tuple[PlaceState, str | None, Text, Text | None]


@dataclass(frozen=True)
class Position:
    """The position of one rank while the run stands still."""

    rank: RankWindow
    place: PositionKind
    frames: Sequence[Frame]
    dump: StackDump | None  # of the open span
    is_held: bool  # in an uninterruptible wait, or stopped by a signal: often no stack can be taken
    collective: str | None
    age_s: float
    epoch: int | None
    batches: int | None  # delivered in that epoch so far

    @property
    def number(self) -> int:
        """Return the rank's number."""
        return self.rank.rank

    @property
    def planned(self) -> int | None:
        """Return the batches of the rank's training loader in an epoch; None if it has no length."""
        sizes = [loader.batches for loader in self.rank.process.loaders if loader.role == "train"]
        return sizes[0] if sizes else None

    @property
    def is_seen(self) -> bool:
        """Whether the rank's place is known: from its stack, or because no stack can be taken there."""
        return self.dump is not None or self.is_held

    @property
    def has_left(self) -> bool:
        """Whether the rank has left its training epoch: outside, ended, or in another loader (validation)."""
        span = self.rank.span
        training = {loader.loader for loader in self.rank.process.loaders if loader.role == "train"}
        elsewhere = span is not None and (span.phase == "outside" or span.loader not in training)
        return self.place in ("outside", "ended") or (self.place == "stuck" and elsewhere)

    @property
    def line(self) -> Frame | None:
        """Return the user's line at which the rank stands; None if it is in a collective or unknown."""
        return None if self.collective or self.place == "ended" else user_frame(self.frames)

    @property
    def spot(self) -> Text:
        """Return where the rank stands: its collective, the line of the user's code, or its phase."""
        if self.collective:
            return Text("rank-place", {"place": "collective", "collective": _in_text(self.collective)})
        if self.place == "ended":
            return Text("rank-place", {"place": "ended"})
        if self.line is not None:
            return Text("rank-place", {"place": "line", "at": self.line.text})
        if ends_interpreter(self.frames):
            return Text("rank-place", {"place": "exit"})
        phase = self.rank.span.phase if self.rank.span else "?"
        return Text("rank-place", {"place": "outside" if phase == "outside" else "phase", "phase": phase})

    @property
    def called_at(self) -> Text:
        """Return where the rank stands; for a collective, with the user's line that called it."""
        at = user_frame(self.frames) if self.collective else None
        if self.collective is None or at is None:
            return self.spot
        call: dict[str, Param] = {"collective": _in_text(self.collective), "at": at.text}
        return Text("rank-place", {"place": "call", **call})


def _in_text(name: str) -> str:
    """Return the name of a collective as a variant key of messages, which cannot contain spaces."""
    return name.replace(" ", "-")


def positions_of(window: RunWindow, found: list[Stuck], limits: Limits) -> list[Position]:
    """Return one position for each rank; ``found`` are the ranks that are stuck outside their loaders."""
    stuck = {item.rank.rank: item for item in found}
    return [_position(window, rank, stuck.get(rank.rank), limits) for rank in window.ranks.values()]


def _position(window: RunWindow, rank: RankWindow, item: Stuck | None, limits: Limits) -> Position:
    dump, span = dump_now(rank), rank.span
    frames = main_frames(dump)
    age_s = (rank.made_ns - span.since_ns) / 1e9 if span else 0.0
    is_held = span is not None and (waits_in_kernel(rank, span) or is_stopped(rank, span))
    name = collective(frames)
    epoch, batches = _in_epoch(rank)
    place: PositionKind
    if rank.process.state == "crashed":
        place = "crashed"
    elif rank.process.state == "finished":
        place = "ended"
    elif item is not None:
        place = "stuck"
    elif window.now_ns - rank.made_ns > STALE_NS or span is None:
        place = "unknown"
    elif span.phase in ("outside", "teardown"):
        used = cpu_ratio(rank, span.pid, rank.made_ns - 5_000_000_000)
        working = used > BUSY_CPU_RATIO or runs_program(frames)
        has_time = working and name is None and age_s < limits.first_factor * limits.hang_floor_s
        place = "moving" if has_time else "outside"
    else:
        place = "moving"
    return Position(rank, place, frames, dump, is_held, name, age_s, epoch, batches)


def _in_epoch(rank: RankWindow) -> tuple[int | None, int | None]:
    """Return the epoch of the training loader and the batches delivered in it; None where unknown.

    They are those of the open span, else of the epoch that ended last.
    """
    training = {loader.loader for loader in rank.process.loaders if loader.role == "train"}
    span = rank.span
    if span is not None and span.phase not in ("outside", "teardown") and span.loader in training:
        return span.epoch, None if span.batch is None else span.batch + 1
    ends = rank.table("epoch_ends")
    for row in range(ends["epoch"].size - 1, -1, -1):
        if int(ends["loader"][row]) in training:
            return int(ends["epoch"][row]), int(ends["batches"][row])
    return None, None


@dataclass(frozen=True)
class Place:
    """A place where some ranks stand. ``positions`` are ordered by rank."""

    state: PlaceState
    collective: str | None
    stands: Text  # "backward", "train.py:31 in prepare", "next(train_loader)"
    at: Text | None  # the line of the user's code, unless ``stands`` names it
    positions: tuple[Position, ...]

    @property
    def ranks(self) -> list[int]:
        """Return the numbers of the ranks that stand here."""
        return [position.number for position in self.positions]

    @property
    def position(self) -> Position:
        """Return the position of the rank that has stood here longest."""
        return max(self.positions, key=lambda position: position.age_s)

    @property
    def dump(self) -> StackDump | None:
        """Return a stack of one of the ranks, which are alike; None if there is none.

        For a rank that waits for a worker, it is the worker's stack.
        """
        dumps = [
            dump
            for position in self.positions
            if (dump := _worker_dump(position) or position.dump) is not None
        ]
        return dumps[0] if dumps else None

    @property
    def text(self) -> Text:
        """Return the place with its line of code: "backward (train.py:33 in train)"."""
        if self.at is None:
            return self.stands
        return Text("place-with-line", {**self.stands.params, "line": self.at})

    @property
    def spot(self) -> Text:
        """Return the place for a sentence, with its line of code."""
        first = self.positions[0]
        span = first.rank.span
        if span is None or span.phase not in LOADER_PHASES:
            return first.called_at
        where = user_frame(main_frames(_worker_dump(first)))
        at = None if where is None else where.text
        call: dict[str, Param] = {"phase": span.phase, "loader": loader_name(first.rank, span), "at": at}
        return Text("rank-place", {"place": "loader", **call})


def places_of(positions: Sequence[Position], odd: int | None = None) -> list[Place]:
    """Return the positions grouped by collective and line of code.

    The rank ``odd`` comes first, then crashed ranks, then small groups, of equal ones those in no collective.
    """
    groups: list[tuple[_Spot, list[Position]]] = []
    for position in sorted(positions, key=lambda position: position.number):
        spot = _spot(position)
        group = next((group for known, group in groups if known == spot), None)
        if group is None:
            groups.append((spot, [position]))
        else:
            group.append(position)
    grouped = [Place(*spot, tuple(group)) for spot, group in groups]
    return sorted(
        grouped,
        key=lambda place: (
            odd not in place.ranks,
            place.state != "crashed",
            len(place.positions),
            place.collective is not None,
            place.ranks[0],
        ),
    )


def _spot(position: Position) -> _Spot:
    if position.place in ("crashed", "ended"):
        state: PlaceState = "crashed" if position.place == "crashed" else "ended"
        return state, None, _label(state), None
    if position.place == "unknown":
        return "unknown", None, _label("unknown"), None
    if position.age_s < STANDS_AFTER_S:
        return "moving", None, _label("moving"), None
    span = position.rank.span
    if span is not None and span.phase in LOADER_PHASES:
        where = user_frame(main_frames(_worker_dump(position)))
        at = Text("place-line", {"of_worker": True, "line": str(where)}) if where else None
        call: dict[str, Param] = {"phase": span.phase, "loader": loader_name(position.rank, span)}
        return "stands", None, _label("loader", **call), at
    where = user_frame(position.frames) if position.collective else None
    line = Text("place-line", {"of_worker": False, "line": str(where)}) if where else None
    at_line = {} if position.line is None else {"at": str(position.line)}
    return "stands", position.collective, Text("place-label", {**position.spot.params, **at_line}), line


def _label(place: str, **params: Param) -> Text:
    return Text("place-label", {"place": place, **params})


def _worker_dump(position: Position) -> StackDump | None:
    """Return the stack of the worker for whose batch a rank waits; None if no stack was taken."""
    span = position.rank.span
    if span is None or span.phase not in LOADER_PHASES or span.awaited_worker is None:
        return None
    pids = [worker.pid for worker in position.rank.workers if worker.worker == span.awaited_worker]
    return stack_of(position.rank, span.awaited_worker, pids[0]) if pids else None


def places(run: RunEvidence) -> list[Place]:
    """Return where all ranks stand now; none if no rank is stuck, or there is only one rank."""
    window, stuck = run.window, run.stuck
    stuck = [item for item in stuck if item.span.phase != "outside"]
    if not stuck or len(window.ranks) < 2:
        return []
    odd = next((item.rank.rank for item in stuck if item.span.phase in LOADER_PHASES), None)
    return places_of(positions_of(window, stuck, run.limits), odd)


def without_stack(window: RunWindow) -> list[int]:
    """Return the ranks that have stood still for a while and whose stack has not been taken since."""
    unseen = []
    for rank in window.ranks.values():
        span = rank.span
        if span is None or rank.process.state != "live" or not span.alive:
            continue
        old = rank.made_ns - span.since_ns >= STANDS_AFTER_S * 1e9
        if old and dump_now(rank) is None:
            unseen.append(rank.rank)
    return unseen


def somebody_waits(window: RunWindow) -> bool:
    """Whether one of several ranks has been in a span for so long that its streamer took its stack unasked.

    Then it is worth knowing where the others stand, before anything counts as hung.
    """
    for rank in window.ranks.values() if len(window.ranks) > 1 else ():
        span = rank.span
        if span is None or span.phase in ("outside", "user"):
            continue
        dump = dump_now(rank)
        if dump is not None and dump.why == OPEN_SPAN:
            return True
    return False


def place_evidence(found: Sequence[Place]) -> list[Evidence]:
    """Return one line of evidence for each place, at most 16."""
    return [
        observed(
            "ranks-stand-in", place.text, "text", ranks=ranks_text(place.ranks), several=len(place.ranks) > 1
        )
        for place in found[:16]
    ]


def ranks_text(ranks: Sequence[int]) -> Text:
    """Return ranks as the message ``hang-ranks``: "rank 3" or "ranks 0, 2 and 5"."""
    return Text("hang-ranks", _ranks(ranks))


def _ranks(ranks: Sequence[int]) -> dict[str, Param]:
    return {"number": len(ranks), "ranks": sorted(ranks)}


def whereabouts(found: Sequence[Place]) -> Text | None:
    """Return which ranks stand where; None if none stands.

    In English: "rank 0 in `barrier` at index.py:48 in build and rank 1 in `backward` at train.py:90 in main".
    """
    clauses = [_stand(place) for place in found if place.state == "stands"]
    if len(clauses) > MOST_PLACES:
        more = Text("more-places", {"number": len(clauses) - MOST_PLACES + 1})
        clauses = [*clauses[: MOST_PLACES - 1], more]
    if not clauses:
        return None
    *earlier, sentence = clauses
    for place in reversed(earlier):
        last = place is earlier[-1]
        sentence = Text("last-place" if last else "next-place", {"place": place, "after": sentence})
    return sentence


def _stand(place: Place) -> Text:
    at_line = place.spot.params["place"] == "line"
    return Text("ranks-stand", {**_ranks(place.ranks), "at_line": at_line, "place": place.spot})


def without_line(positions: Sequence[Position]) -> Text | None:
    """Return the message about ranks without a stack, whose line is unknown; None if there are none."""
    unseen = [p.number for p in positions if p.place in ("stuck", "outside") and p.dump is None]
    return Text("ranks-without-stack", _ranks(unseen)) if unseen else None


@dataclass(frozen=True)
class Patience:
    """The time until the first collective is given up, and the job with it."""

    left_s: float
    timeout_s: float
    known: bool  # the run's own setting, not PyTorch's default

    @property
    def text(self) -> Text:
        """Return the message about when the collective is given up."""
        when: dict[str, Param] = {"left_s": self.left_s, "timeout_s": self.timeout_s}
        return Text("collective-will-end", {**when, "over": self.left_s <= 0, "known": self.known})


def patience(positions: Sequence[Position]) -> Patience | None:
    """Return when the first collective is given up; None if no rank waits in one or no timeout is known.

    A rank enters its collective when its span begins or later, so the real time may be a little longer.
    """
    patiences: list[Patience] = []
    for position in positions:
        process = position.rank.process
        default_s = next(
            (s for name, s in DEFAULT_TIMEOUT_S.items() if name in (process.backend or "")), None
        )
        timeout_s = process.collective_timeout_s or default_s
        if position.collective is not None and timeout_s is not None:
            known = process.collective_timeout_s is not None
            patiences.append(Patience(timeout_s - position.age_s, timeout_s, known))
    return min(patiences, key=lambda item: item.left_s, default=None)
