"""Hangs across ranks, where ranks wait for each other: S44 S45 S46 S47, and S52 S53 of one rank.

A lone process that hangs is S26.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from loaderwatch.core.answers import Evidence, Param, Text
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import HUNG as CODE
from loaderwatch.detect.crash.death_traces import stopped
from loaderwatch.detect.finding import Finding, observed, who
from loaderwatch.detect.hang.expected_standstills import is_excused
from loaderwatch.detect.hang.loader_hang_causes import blocked
from loaderwatch.detect.hang.lone_rank_activity import EARLY_STOP, pattern_of
from loaderwatch.detect.hang.outside_loops import alone
from loaderwatch.detect.hang.rank_positions import (
    Position,
    patience,
    place_evidence,
    places_of,
    positions_of,
    whereabouts,
    without_line,
)
from loaderwatch.detect.measures.gpu import spins_in_collective
from loaderwatch.detect.measures.progress import Stuck, cpu_ratio, stands_still, still_stands_there
from loaderwatch.detect.measures.stacks import in_loop_of, main_frames, saving, user_frame
from loaderwatch.detect.shared_thresholds import IDLE_CPU_RATIO, Limits
from loaderwatch.detect.window import RunWindow


def finding_of(
    *,
    scenario: str,
    confidence: float,
    odd: Position,
    positions: list[Position],
    age_s: float,
    rule: str,
    params: Mapping[str, Param] | None = None,
    frame: Text | None = None,
    also: Sequence[Text] = (),
    evidence: Sequence[Evidence] = (),
) -> Finding:
    """Return a finding about ``odd``, with the stacks of all these positions; it has lasted for ``age_s``.

    The finding says where the ranks stand, unless its title does (a parameter of ``frame`` or of the rule).
    """
    distinct = list({position.number: position for position in positions}.values())
    places, left = places_of(distinct, odd.number), patience(positions)
    known = dict(params or {})
    in_title = list((known if frame is None else frame.params).values())
    seen: list[Text | None] = [*also]
    if stands := whereabouts(places):
        titled = stands in in_title or (len(places) == 1 and places[0].position.called_at in in_title)
        seen += [None if titled else Text("ranks-stand-there", {"stands": stands}), without_line(distinct)]
    seen.append(left.text if left else None)
    return Finding(
        key=f"{CODE}:collective",
        aspect="collective",
        code=CODE,
        scenario=scenario,
        severity="critical",
        confidence=confidence,
        began_ns=max(
            position.rank.made_ns - int(position.age_s * 1e9)
            for position in positions
            if position.age_s <= age_s
        ),
        rule=rule,
        params=known,
        frame=frame,
        also=[text for text in seen if text is not None],
        evidence=[
            observed("no-progress-for", age_s, "s"),
            *([observed("until-the-collective-is-given-up", max(0.0, left.left_s), "s")] if left else []),
            *(item for item in evidence if item.value is not None),
            *place_evidence(places),
        ],
        rank=odd.number,
        host=odd.rank.host,
        pid=odd.rank.process.pid,
        lost_s=age_s,
        stacks=[place.dump for place in places[:8] if place.dump is not None],
    )


def waits_for(waiting: Sequence[Position], gone: Sequence[Position], one: Position) -> dict[str, Param]:
    """Return the parameters that say which ranks wait for which, and where ``one`` of them waits."""
    return {
        "waits": len(waiting),
        "waiting": sorted(position.number for position in waiting),
        "place": one.called_at,
        "leaves": len(gone),
        "gone": sorted(position.number for position in gone),
    }


def left_behind(stuck: list[Position], outside: list[Position], *, same_epoch: bool) -> Finding | None:
    """Explain S44 or S45: some ranks left the epoch; others still have batches, or have begun another epoch.

    The others wait for a partner that will not come. None if it is not that.
    """
    gone = [
        position
        for position in [*outside, *stuck]
        if position.has_left and (same_epoch or not _comes_back(position))
    ]
    waits = [position for position in stuck if not position.has_left]
    for left_rank in gone:
        for waiting in waits:
            if _more_batches(left_rank, waiting, same_epoch=same_epoch):
                as_many = not same_epoch and _had_as_many(left_rank, waiting)
                return (_went_on if as_many else _unequal)(left_rank, waiting, waits, gone)
    return None


def _comes_back(left: Position) -> bool:
    """Whether the rank is between two epochs, in its own code: others may have begun the next one first."""
    in_own_code = left.place != "ended" and left.collective is None and left.is_seen
    return in_own_code and (left.is_held or in_loop_of(left.frames, left.rank.process.calls) is not False)


def _more_batches(left: Position, waiting: Position, *, same_epoch: bool) -> bool:
    if left.batches is None or waiting.batches is None or left.epoch is None or waiting.epoch is None:
        return False
    if same_epoch:
        return left.epoch == waiting.epoch and waiting.batches > left.batches
    spans = left.rank.span, waiting.rank.span
    return spans[0] is not None and spans[1] is not None and spans[1].batches > spans[0].batches


def _had_as_many(left: Position, waiting: Position) -> bool:
    """Whether both had the same number of batches until one left and the other began a later epoch alone."""
    spans = left.rank.span, waiting.rank.span
    if spans[0] is None or spans[1] is None or (left.epoch or 0) >= (waiting.epoch or 0):
        return False
    return spans[1].batches - (waiting.batches or 0) <= spans[0].batches


def _went_on(left: Position, waiting: Position, stuck: list[Position], outside: list[Position]) -> Finding:
    why = pattern_of([left], stuck) or EARLY_STOP
    title = _both(left, waiting, stuck, outside)
    return finding_of(
        scenario="S45",
        confidence=0.9,
        odd=left if len(outside) <= len(stuck) else waiting,
        positions=[*stuck, *outside],
        age_s=max(position.age_s for position in stuck),
        rule=why.rule,
        params={"seen": "epochs"},
        frame=Text("epoch-begun-without-others", title),
        also=[Text("nobody-will-come")],
    )


def _unequal(left: Position, waiting: Position, stuck: list[Position], outside: list[Position]) -> Finding:
    planned = waiting.planned
    has = planned if planned is not None and planned > (left.batches or 0) else waiting.batches
    return finding_of(
        scenario="S44",
        confidence=0.95 if left.epoch == waiting.epoch else 0.7,
        odd=left if len(outside) < len(stuck) else waiting,
        positions=[*stuck, *outside],
        age_s=max(position.age_s for position in stuck),
        rule="unequal-batches-per-rank",
        params={
            **_both(left, waiting, stuck, outside),
            "rank": waiting.number,
            "batches": has,
            "or_more": has == waiting.batches,
            "batch": waiting.batches,
            "left_rank": left.number,
            "left_batches": left.batches,
        },
        evidence=[
            *(
                observed(
                    "batches-of-rank-in-epoch",
                    position.batches,
                    "count",
                    rank=position.number,
                    epoch=position.epoch,
                )
                for position in (waiting, left)
            ),
            observed("length-of-loader-of-rank", planned, "count", rank=waiting.number),
            observed("length-of-loader-of-rank", left.planned, "count", rank=left.number),
        ],
    )


def _both(
    left: Position, waiting: Position, stuck: list[Position], outside: list[Position]
) -> dict[str, Param]:
    """Return who waits where in which epoch, and who left and where to, or that its process has ended."""
    return {
        **waits_for(stuck, outside, waiting),
        "epoch": waiting.epoch,
        "left_epoch": left.epoch,
        "left_place": left.called_at,
        "at_line": left.line is not None,
        "ended": left.place == "ended",
    }


STAYS_NS: Final = threshold(
    10_000_000_000, "ns", "chosen: a rank that has not moved since a stack this old stays in its collective"
)
STACKS_COME_S: Final = threshold(
    10.0, "s", "chosen: collectives look alike without stacks, which are requested as a span grows old"
)
# DistributedDataParallel's error on a rank that used other layers than in the step before.
UNUSED: Final = re.compile(r"finished reduction")


def detect(window: RunWindow, found: list[Stuck], limits: Limits) -> list[Finding]:
    """Find why ranks are stuck outside their loaders: at most one finding. ``found`` are the stuck ranks."""
    found = [item for item in found if not is_excused(window, item)]
    world = window.world_size
    if world == 1:
        return [alone(found[0])] if found else []
    positions = positions_of(window, found, limits)
    if any(position.place == "moving" for position in positions):
        return []  # a rank works and the others wait for it: slow, not hung
    if _stacks_come(found, positions):
        return []
    stuck = [position for position in positions if position.place == "stuck"]
    outside = [position for position in positions if position.place in ("outside", "ended")]
    crashed = any(position.place == "crashed" for position in positions)
    if stuck and not outside and not crashed and not any(position.collective for position in stuck):
        return _without_collective(found, stuck)
    if not stuck:
        waiting = [position for position in outside if _stays(position, limits)]
        return [_desync(waiting)] if len(waiting) > 1 and _differ(waiting) else []
    finding = (
        left_behind(stuck, outside, same_epoch=True)
        or (_desync(stuck + outside) if _in_buffer_sync(stuck + outside) else None)
        or left_behind(stuck, outside, same_epoch=False)
        or _crashed(stuck, positions)
        or _busy_elsewhere(stuck, outside)
        or _ended(stuck, outside)
        or _desync(stuck + outside)
    )
    return [_with_limit(_with_gpu(finding, stuck), found)]


def _stacks_come(found: list[Stuck], positions: list[Position]) -> bool:
    """Whether to wait for the stack of a rank outside its loops: it may work there, or have left."""
    if not found or min(item.age_s - item.limit_s for item in found) > STACKS_COME_S:
        return False
    return any(position.place == "outside" and not position.is_seen for position in positions)


def _stays(position: Position, limits: Limits) -> bool:
    """Whether the rank has stayed in its collective since its stack was taken, long ago.

    Outside a watched loop, a loop of the script itself may still make progress.
    """
    if position.collective is None or position.dump is None or position.age_s < limits.hang_floor_s:
        return False
    taken_ns = position.dump.taken_ns
    long = position.rank.made_ns - taken_ns >= STAYS_NS
    return long and stands_still(position.rank, position.rank.process.pid, taken_ns)


def _without_collective(found: list[Stuck], stuck: list[Position]) -> list[Finding]:
    """Return the finding when all ranks stand still and no stack shows a collective; it may be intended."""
    if not all(position.is_seen for position in stuck):
        late = min(item.age_s - item.limit_s for item in found) > STACKS_COME_S
        return [_desync(stuck)] if late else []
    held = {position.number for position in stuck if position.is_held}
    return [alone(max(found, key=lambda item: (item.rank.rank in held, item.age_s)))]


def _in_buffer_sync(positions: list[Position]) -> bool:
    collectives = {position.collective for position in positions if position.dump is not None}
    return "buffer sync" in collectives and len(collectives) > 1


def _differ(positions: list[Position]) -> bool:
    return len({position.collective for position in positions}) > 1


def _desync(positions: list[Position]) -> Finding:
    """Explain S46, a buffer exchange against another collective, or S45, other collectives that differ."""
    stands = places_of(positions)
    odd = stands[0].position
    # One collective called from two lines is two, and neither completes. An unknown line proves nothing.
    alike = all(place.stands == stands[0].stands for place in stands)
    differ = len(stands) > 1 and (not alike or all(place.at for place in stands))
    age_s = max(position.age_s for position in positions)
    places = Text("ranks-in-different-places", {"places": whereabouts(stands), "age_s": age_s})
    if _in_buffer_sync(positions):
        return finding_of(
            scenario="S46",
            confidence=0.9,
            odd=next(position for position in positions if position.collective == "buffer sync"),
            positions=positions,
            age_s=age_s,
            rule="unequal-forward-passes",
            params={"option": _buffer_option(odd)},
            frame=places,
        )
    if found := _one_sided(positions):
        return found
    if differ and any(position.collective for position in positions):
        why = pattern_of(positions)
        return finding_of(
            scenario="S45",
            confidence=0.75,
            odd=odd,
            positions=positions,
            age_s=age_s,
            rule=why.rule if why else "ranks-in-different-collectives",
            params={"seen": "ways"} if why else {},
            frame=places,
        )
    return finding_of(
        scenario="S45",
        confidence=0.5,
        odd=odd,
        positions=positions,
        age_s=age_s,
        rule="backward-never-completes" if odd.collective == "backward" else "collective-never-completes",
        frame=Text("ranks-stand-still", {**_everybody(positions), "place": odd.called_at, "age_s": age_s}),
    )


def _everybody(positions: list[Position]) -> dict[str, Param]:
    return who([position.number for position in positions], len(positions))


def _one_sided(positions: list[Position]) -> Finding | None:
    """Explain S45 in which all ranks send, or all receive, so nobody has a partner; None if they do not."""
    stands = {position.collective for position in positions}
    if stands not in ({"send"}, {"recv"}) or len(positions) < 2:
        return None
    odd = max(positions, key=lambda position: position.age_s)
    frame = user_frame(main_frames(odd.dump)) if odd.dump is not None else None
    at = None if frame is None else frame.text
    return finding_of(
        scenario="S45",
        confidence=0.9,
        odd=odd,
        positions=positions,
        age_s=odd.age_s,
        rule="all-ranks-send" if stands == {"send"} else "all-ranks-receive",
        params={**_everybody(positions), "place": odd.spot, "at": at, "age_s": odd.age_s},
    )


def _buffer_option(position: Position) -> str:
    version = (position.rank.process.torch or "").split("+")[0].split(".")[:2]
    try:
        new = (int(version[0]), int(version[1])) >= (2, 13)
    except (IndexError, ValueError):
        new = True
    return "forward_sync_buffers=False" if new else "broadcast_buffers=False"


def _crashed(stuck: list[Position], positions: list[Position]) -> Finding | None:
    # A rank that the launcher stopped followed another rank, so it comes last.
    dead = sorted(
        (position for position in positions if position.place == "crashed"),
        key=lambda position: stopped(position.rank.process) is not None,
    )
    if not dead:
        return None
    how, host = dead[0].rank.process.exit, dead[0].rank.host
    unused = UNUSED.search(how or "") is not None
    return finding_of(
        scenario="S45",
        confidence=0.9,
        odd=dead[0],
        positions=[*dead, *stuck],
        age_s=max(position.age_s for position in stuck),
        rule="rank-crashed-on-unused-parameters" if unused else "others-wait-for-crashed-rank",
        params={**waits_for(stuck, dead[:1], stuck[0]), "host": host, "how": how or None},
    )


def _ended(stuck: list[Position], outside: list[Position]) -> Finding | None:
    """Explain a wait in a collective for ranks that ended without an error; None if it is not that."""
    gone = [position for position in outside if position.place == "ended"]
    if not gone or len(gone) < len(outside) or any(position.spot != stuck[0].spot for position in stuck):
        return None
    if not stuck[0].collective:
        return None
    return finding_of(
        scenario="S45",
        confidence=0.85,
        odd=stuck[0] if len(stuck) == 1 else gone[0],
        positions=[*gone, *stuck],
        age_s=max(position.age_s for position in stuck),
        rule="others-wait-for-ended-rank",
        params=waits_for(stuck, gone, stuck[0]),
    )


def _busy_elsewhere(stuck: list[Position], outside: list[Position]) -> Finding | None:
    """Explain S47, S52 or S53: ranks wait in a collective for one rank that works or is stuck elsewhere.

    None if it is not that.
    """
    waiting = [position for position in [*stuck, *outside] if position.collective]
    away = [position for position in [*stuck, *outside] if position.collective is None and position.is_seen]
    held = sorted((position for position in away if position.is_held), key=lambda position: -position.age_s)
    away = held[:1] or away
    if not waiting or len(away) != 1 or away[0].place == "ended":
        return None
    odd = away[0]
    span, saves = odd.rank.span, saving(odd.frames)
    since_ns = odd.rank.made_ns - int(min(odd.age_s * 1e9, STAYS_NS))
    still = odd.is_held or (
        stands_still(odd.rank, odd.rank.process.pid, since_ns)
        and still_stands_there(odd.rank, odd.dump, since_ns)
    )
    stands = span is not None and still and (saves or odd.has_left)
    knows_cause = span is not None and (odd.is_held or (stands and span.wchan))
    reason = blocked(span) if span is not None and knows_cause else None
    polls = not stands and cpu_ratio(odd.rank, odd.rank.process.pid, since_ns) < IDLE_CPU_RATIO
    rule, params = _works_alone(odd, waiting, polls=polls)
    if stands and saves:
        rule, params = "save-of-one-rank-hangs", {}
    elif reason:
        rule, params = reason.rule, reason.params
    title: dict[str, Param] = {
        **waits_for(waiting, [odd], waiting[0]),
        "stuck": reason is not None or stands,
        "seen": bool(odd.frames),
        "odd_place": odd.spot,
        "age_s": odd.age_s,
        "because": reason.said("because") if reason else None,
    }
    moves = "nothing" if still else "polls" if polls else "unknown"
    return finding_of(
        scenario="S47" if not stands else "S52" if saves else "S53",
        confidence=0.85 if stands else 0.6,
        odd=odd,
        positions=[*waiting, odd],
        age_s=max(position.age_s for position in waiting),
        rule=rule,
        params=params,
        frame=Text("others-wait-for-one", title),
        also=[Text("one-rank-does-other-things", {"rank": odd.number, "moves": moves})],
    )


def _works_alone(odd: Position, waiting: list[Position], *, polls: bool) -> tuple[str, dict[str, Param]]:
    """Return the rule for a rank at work, by the place where it works, with the rule's parameters."""
    why = pattern_of([odd], waiting)
    return why.works if why and why.works else "others-wait-for-long-work", {"polls": polls}


def _with_gpu(finding: Finding, stuck: list[Position]) -> Finding:
    for position in stuck:
        span = position.rank.span
        message = spins_in_collective(position.rank, span.since_ns) if span else None
        if message is not None:
            return msgspec.structs.replace(finding, also=[*finding.also, message])
    return finding


def _with_limit(finding: Finding, found: list[Stuck]) -> Finding:
    """Add the limit of the rank that passed its own limit first."""
    first = max(found, key=lambda item: item.age_s - item.limit_s)
    age, *others = finding.evidence
    limit = observed("limit-learned-for-this-phase", first.limit_s, "s")
    return msgspec.structs.replace(finding, evidence=[age, limit, *others])
