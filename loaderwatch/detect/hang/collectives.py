"""Hangs across ranks, in which everybody waits for somebody: S44 S45 S46 S47, and S52 S53 of one rank.

A lone process that stands still is S26.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from loaderwatch.core.answers import Evidence
from loaderwatch.detect.crash.evidence import stopped
from loaderwatch.detect.finding import Finding, reworded
from loaderwatch.detect.hang.across_ranks import finding_of
from loaderwatch.detect.hang.excuses import is_excused
from loaderwatch.detect.hang.left_behind import left_behind
from loaderwatch.detect.hang.outside_loops import SAVE_ADVICE, alone
from loaderwatch.detect.hang.patterns import BRANCH_OF_MODEL, pattern_of
from loaderwatch.detect.hang.rank_positions import (
    Position,
    names,
    places_of,
    positions_of,
    whereabouts,
)
from loaderwatch.detect.hang.reasons import blocked
from loaderwatch.detect.limits import IDLE_CPU_RATIO, Limits
from loaderwatch.detect.measures.gpu import spins_in_collective
from loaderwatch.detect.measures.progress import Stuck, cpu_ratio, stands_still, still_stands_there
from loaderwatch.detect.measures.stacks import main_frames, saving, user_frame
from loaderwatch.detect.text import duration, ranks_phrase
from loaderwatch.detect.window import RunWindow

STAYS_NS = 10_000_000_000
# Stacks are asked for when a span grows old; without them nobody can tell collectives apart.
STACKS_COME_S = 10.0
UNUSED: Final = re.compile(r"finished reduction")
"""Words of DistributedDataParallel's error on a rank that used other layers than in the step before."""
WORKS_ADVICE: Final = (
    "Do long work of a single rank before training or in another process, and let the others not wait for it: a longer timeout"
    " of init_process_group only keeps the job alive meanwhile."
)
POLL_ADVICE: Final = "If it waits there for what may never come (a file, a server, another job), give that wait a limit and let it end with an error. "

TOGETHER_ADVICE: Final = (
    "Make such decisions on all ranks together (all_reduce a flag), and set TORCH_DISTRIBUTED_DEBUG=DETAIL to see which"
    " collective differs."
)
LOST_ADVICE: Final = (
    "Look at the network between the ranks, and read the logs of all ranks: one may tell of a lost connection or a dead process."
    " With NCCL, set NCCL_DEBUG=INFO for the next run: each rank then logs its connections and their errors."
)


def detect(window: RunWindow, found: list[Stuck], limits: Limits) -> list[Finding]:
    """Find why ranks are stuck outside their loaders: one finding at most. ``found`` are the stuck ranks."""
    found = [item for item in found if not is_excused(window, item)]
    world = window.world_size
    if world == 1:
        return [alone(found[0])] if found else []
    positions = positions_of(window, found, limits)
    if any(position.place == "moving" for position in positions):
        return []  # somebody works, the others wait for it: slow, not hung
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
    """Whether to wait for the stack of a rank that is outside its loops: it may be at work there, or have left for good."""
    if not found or min(item.age_s - item.limit_s for item in found) > STACKS_COME_S:
        return False
    return any(position.place == "outside" and not position.is_seen for position in positions)


def _stays(position: Position, limits: Limits) -> bool:
    """Whether the rank sits in its collective since its stack was taken, and for long.

    Outside a watched loop, a loop of the script's own may go on.
    """
    if position.collective is None or position.dump is None or position.age_s < limits.hang_floor_s:
        return False
    taken_ns = position.dump.taken_ns
    long = position.rank.made_ns - taken_ns >= STAYS_NS
    return long and stands_still(position.rank, position.rank.process.pid, taken_ns)


def _without_collective(found: list[Stuck], stuck: list[Position]) -> list[Finding]:
    """Return the finding when all ranks stand still and no stack shows a collective: perhaps it is meant."""
    if not all(position.is_seen for position in stuck):
        late = min(item.age_s - item.limit_s for item in found) > STACKS_COME_S
        return [_desync(stuck)] if late else []
    held = {position.number for position in stuck if position.is_held}
    return [alone(max(found, key=lambda item: (item.rank.rank in held, item.age_s)))]


def _in_buffer_sync(positions: list[Position]) -> bool:
    found = {position.collective for position in positions if position.dump is not None}
    return "buffer sync" in found and len(found) > 1


def _differ(positions: list[Position]) -> bool:
    return len({position.collective for position in positions}) > 1


def _desync(positions: list[Position]) -> Finding:
    """Explain S46, an exchange of buffers against something else, or S45, other collectives that differ."""
    stands = places_of(positions)
    places, odd = whereabouts(stands), stands[0].position
    # The same collective from two lines is two, and none of them is complete. A line that is not known tells of no difference.
    differ = len(stands) > 1 and (len({one.stands for one in stands}) > 1 or all(one.at for one in stands))
    age_s = max(position.age_s for position in positions)
    if _in_buffer_sync(positions):
        return finding_of(
            scenario="S46",
            confidence=0.9,
            odd=next(position for position in positions if position.collective == "buffer sync"),
            positions=positions,
            age_s=age_s,
            title=f"The ranks wait for each other in different places: {places}, for {duration(age_s)}.",
            cause="DistributedDataParallel copies rank 0's buffers (BatchNorm statistics) to all ranks in every forward pass that"
            " follows one with gradients. The ranks did not run the same number of those forward passes, which happens when"
            " validation goes through the wrapped model on one rank only or with unequal batches.",
            advice="In validation call model.module(x) instead of model(x), under torch.no_grad(), and on all ranks or on none."
            f" {_buffer_option(odd)} turns the copies off altogether.",
            evidence=[],
        )
    if found := _one_sided(positions):
        return found
    why, advice = None, TOGETHER_ADVICE
    if differ and any(position.collective for position in positions):
        why = pattern_of(positions)
        title = f"The ranks wait for each other in different places: {places}, for {duration(age_s)}."
        cause = "The ranks took different ways through the code, so their collectives do not match."
        cause += (
            f" {why.cause}"
            if why
            else " A batch was skipped on one rank, or a branch depends on data that only it has."
        )
        confidence = 0.75
    else:
        who = ranks_phrase([position.number for position in positions], len(positions))
        title = f"{who} have stood still in {odd.where} for {duration(age_s)}."
        cause = "A collective does not complete although all ranks are in it: the network between them, or a partner that died."
        advice = LOST_ADVICE
        if odd.collective == "backward":
            why = BRANCH_OF_MODEL
            cause += f" Or: {why.cause[0].lower()}{why.cause[1:]}"
        confidence = 0.5
    return finding_of(
        scenario="S45",
        confidence=confidence,
        odd=odd,
        positions=positions,
        age_s=age_s,
        title=title,
        cause=cause,
        advice=why.meets if why else advice,
        evidence=[],
    )


def _one_sided(positions: list[Position]) -> Finding | None:
    """Explain an S45 in which all ranks send, or all receive: each waits for a partner who does the same; None if they do not."""
    stands = {position.collective for position in positions}
    if stands not in ({"send"}, {"recv"}) or len(positions) < 2:
        return None
    odd = max(positions, key=lambda position: position.age_s)
    who = ranks_phrase([position.number for position in positions], len(positions))
    frame = user_frame(main_frames(odd.dump)) if odd.dump is not None else None
    at = "" if frame is None else f", at {frame}"
    sends = stands == {"send"}
    return finding_of(
        scenario="S45",
        confidence=0.9,
        odd=odd,
        positions=positions,
        age_s=odd.age_s,
        title=f"{who} have stood still in send for {duration(odd.age_s)}{at}: none of them receives."
        if sends
        else f"{who} have stood still in recv for {duration(odd.age_s)}{at}: none of them sends.",
        cause="A send returns when its partner receives, and a recv when its partner sends. Here all ranks took the same side, as"
        " where each decides by itself who gives and who takes.",
        advice="Decide it on one rank and broadcast it, or by the number of the rank where both could do the same (as in a tie);"
        " torch.distributed.batch_isend_irecv pairs exchanges in both directions.",
        evidence=[],
    )


def _buffer_option(position: Position) -> str:
    version = (position.rank.process.torch or "").split("+")[0].split(".")[:2]
    try:
        new = (int(version[0]), int(version[1])) >= (2, 13)
    except (IndexError, ValueError):
        new = True
    return "forward_sync_buffers=False" if new else "broadcast_buffers=False"


def _crashed(stuck: list[Position], positions: list[Position]) -> Finding | None:
    # Whom the launcher stopped followed another rank.
    dead = sorted(
        (position for position in positions if position.place == "crashed"),
        key=lambda position: stopped(position.rank.process) is not None,
    )
    if not dead:
        return None
    how = f" ({dead[0].rank.process.exit})" if dead[0].rank.process.exit else ""
    one = len(stuck) == 1
    return finding_of(
        scenario="S45",
        confidence=0.9,
        odd=dead[0],
        positions=[*dead, *stuck],
        age_s=max(position.age_s for position in stuck),
        title=f"{names([position.number for position in stuck]).capitalize()} {'waits' if one else 'wait'} in {stuck[0].where} for"
        f" rank {dead[0].number}, which crashed{how}.",
        cause=f"Rank {dead[0].number} is gone; the others sit in a collective with it until that times out.",
        advice=BRANCH_OF_MODEL.meets
        if UNUSED.search(how)
        else f"Find out why rank {dead[0].number} on {dead[0].rank.host} died; its last steps are on its page. Stop the job:"
        " it cannot go on.",
        evidence=[],
    )


def _ended(stuck: list[Position], outside: list[Position]) -> Finding | None:
    """Explain a wait in a collective for ranks that have ended without an error, or return None."""
    gone = [position for position in outside if position.place == "ended"]
    if not gone or len(gone) < len(outside) or len({position.stands for position in stuck}) > 1:
        return None
    if not stuck[0].collective:
        return None
    one, has = len(stuck) == 1, "has" if len(gone) == 1 else "have"
    left = names([position.number for position in gone])
    return finding_of(
        scenario="S45",
        confidence=0.85,
        odd=stuck[0] if one else gone[0],
        positions=[*gone, *stuck],
        age_s=max(position.age_s for position in stuck),
        title=f"{names([position.number for position in stuck]).capitalize()} {'waits' if one else 'wait'} in {stuck[0].where} for {left},"
        f" which {has} ended.",
        cause=f"{left.capitalize()} {has} ended without an error and will not come; the others sit in a collective until that times out.",
        advice="Let all ranks take part in the same collectives up to the last, and let no rank leave before the others:"
        " dist.barrier(), then dist.destroy_process_group(), on every rank.",
        evidence=[],
    )


def _busy_elsewhere(stuck: list[Position], outside: list[Position]) -> Finding | None:
    """Explain S47, S52 or S53, or return None: one rank is outside any collective, at work or stuck.

    The others wait in a collective meanwhile.
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
    tells = span is not None and (odd.is_held or (stands and span.wchan))
    reason = blocked(span, "the training process") if span is not None and tells else None
    because = f", {reason.because}" if reason else ""
    why = pattern_of([odd], waiting)
    polls = not stands and cpu_ratio(odd.rank, odd.rank.process.pid, since_ns) < IDLE_CPU_RATIO
    return finding_of(
        scenario="S47" if not stands else "S52" if saves else "S53",
        confidence=0.85 if stands else 0.6,
        odd=odd,
        positions=[*waiting, odd],
        age_s=max(position.age_s for position in waiting),
        title=f"{names([position.number for position in waiting]).capitalize()} wait{'s' if len(waiting) == 1 else ''} in"
        f" {waiting[0].where} for rank {odd.number}, which has {'been stuck' if reason or stands else 'been'} {'at' if odd.frames else 'in'} {odd.stands} for"
        f" {duration(odd.age_s)}{because}.",
        cause=f"Rank {odd.number} does something the others do not, while they wait for it in a collective."
        + (
            " It uses no CPU and nothing of it moves."
            if still
            else " It hardly uses any CPU: it sleeps or polls there."
            if polls
            else ""
        ),
        advice=SAVE_ADVICE
        if stands and saves
        else reason.advice
        if reason
        else (POLL_ADVICE if polls else "") + (why.works if why and why.works else WORKS_ADVICE),
        evidence=[],
    )


def _with_gpu(finding: Finding, stuck: list[Position]) -> Finding:
    for position in stuck:
        span = position.rank.span
        said = spins_in_collective(position.rank, span.since_ns) if span else None
        if said:
            return reworded(finding, cause=f"{finding.cause} {said}")
    return finding


def _with_limit(finding: Finding, found: list[Stuck]) -> Finding:
    """Add the limit of the rank that was the first to pass its own."""
    first = max(found, key=lambda item: item.age_s - item.limit_s)
    age, *others = finding.evidence
    limit = Evidence(label="limit learned for this phase", value=first.limit_s, unit="s")
    return msgspec.structs.replace(finding, evidence=[age, limit, *others])
