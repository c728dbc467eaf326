"""Folding: one cause gives one alert, and the other findings that it explains lie under it.

Within a window ``fold`` puts effects under their cause. Over time the tracker asks ``explains`` whether a new
finding is what an open incident was leading up to (it then takes that incident over), or only another effect
of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from loaderwatch.core.answers import Severity
from loaderwatch.core.from_records import from_records
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.finding import SEVERITIES, Finding, Folded, Texts

MOST_FOLDED: Final = threshold(8, "findings", "chosen: bounds what lies under one alert")
STANDSTILLS: Final = frozenset(("S26", "S52", "S53"))
"""Hangs of a process in its own code, outside the loader."""
PROVEN_PART: Final = threshold(
    0.5, "ratio", "chosen: of a GPU's idle time; a rank that cost 8 % had hidden a GPU that idled for 49 %"
)

OF_THE_HOST: Final = frozenset(("S03", "S04", "S05", "S06", "S07", "S09", "S10", "S14"))
"""Scenarios whose cause is the machine or the job's settings: for two loaders it is one trouble."""
AS_IF_SHORT: Final = frozenset(("S02", "S03", "S07", "S08", "S14", "S23"))
"""What workers look like that stop again and again to fill a buffer: too few, too slow, without a CPU, or with nothing left to read."""
OF_MANY_FETCHES: Final = frozenset(("S22", "S23", "S25", "S49"))
"""Time limits, few readers, collections and locks: until enough of the fetches are seen, they look like single slow samples."""


def explains(cause: Finding, effect: Finding) -> bool:
    """Whether ``effect`` is only another sign of ``cause``, so that one alert is enough for both."""
    rule = _EXPLAINED_BY.get((cause.code, effect.code))
    return rule is not None and cause.key != effect.key and rule(cause, effect)


def fold(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of one window that no other one explains, with those they explain under them."""
    above = {
        effect.key: cause
        for effect in findings
        if (cause := next((other for other in findings if explains(other, effect)), None)) is not None
    }
    under: dict[str, list[Finding]] = {}
    for finding in findings:
        top = finding
        for _ in above:  # up to the cause of the cause, at most as often as there are causes
            top = above.get(top.key, top)
        if top is not finding:
            under.setdefault(top.key, []).append(finding)
    return [absorb(finding, under.get(finding.key, ())) for finding in findings if finding.key not in above]


def absorb(cause: Finding, effects: Iterable[Finding], warned_s: float | None = None) -> Finding:
    """Return the cause with these effects folded under it. It is as grave, and costs as much, as the worst.

    A fast-forward keeps its own severity and cost: a resumed run is only a remark, however long its loop
    waits meanwhile. ``warned_s`` is for how many seconds the effects had been an alert, as in ``Folded``.
    """
    for effect in effects:
        cause = msgspec.structs.replace(
            cause, folded=joined(cause.folded, [*effect.folded, _folded(effect, warned_s)], cause.key)
        )
        if cause.code != "fast-forward":
            known = [lost for lost in (cause.lost_s, effect.lost_s) if lost is not None]
            cause = msgspec.structs.replace(
                cause, severity=graver(cause.severity, effect.severity), lost_s=max(known, default=None)
            )
    return cause


def joined(old: Iterable[Folded], new: Iterable[Folded], key: str) -> list[Folded]:
    """Return both lists as one, with the newer entry for each key and none for ``key`` itself.

    An entry keeps its earliest beginning, its gravest severity and what it warned; ``MOST_FOLDED`` entries
    stay.
    """
    by_key = {folded.key: folded for folded in old}
    for folded in new:
        known = by_key.get(folded.key)
        if known is not None:
            folded = msgspec.structs.replace(
                folded,
                warned_s=known.warned_s if folded.warned_s is None else folded.warned_s,
                began_ns=min(known.began_ns, folded.began_ns),
                severity=graver(known.severity, folded.severity),
            )
        by_key[folded.key] = folded
    by_key.pop(key, None)
    return list(by_key.values())[-MOST_FOLDED:]


def graver(one: Severity, other: Severity) -> Severity:
    """Return the graver of two severities."""
    return max(one, other, key=SEVERITIES.__getitem__)


def _folded(finding: Finding, warned_s: float | None) -> Folded:
    return from_records(Folded, finding, texts=Texts(title=finding.texts.title), warned_s=warned_s)


# ---- the rules: (what explains, what is explained)


def _same_rank(cause: Finding, effect: Finding) -> bool:
    return None in (cause.rank, effect.rank) or cause.rank == effect.rank


def _same_host(cause: Finding, effect: Finding) -> bool:
    return None in (cause.host, effect.host) or cause.host == effect.host


def _crash_of_what_ran_out(crash: Finding, forecast: Finding) -> bool:
    """Whether the forecast foretold the crash: the same resource, or memory before a worker was killed."""
    if forecast.scenario == "S40":
        return crash.scenario == "S40" and _same_rank(crash, forecast)
    return crash.scenario == {"S24": "S37"}.get(forecast.scenario, forecast.scenario) and _same_host(
        crash, forecast
    )


def _crash_in_a_wait(crash: Finding, wait: Finding) -> bool:
    """Whether this is the wait in which a worker died (S37), which was a remark until then.

    Waits that were an alert before are a trouble of their own.
    """
    in_worker = crash.scenario == "S37" and wait.key.endswith(":spikes")
    return in_worker and wait.severity == "info" and _same_rank(crash, wait)


def _hang_of_what_ran_out(hang: Finding, forecast: Finding) -> bool:
    """Whether the forecast foretold the hang.

    A worker died, or a batch was lost, while /dev/shm, memory or descriptors ran out (pytorch#25691).
    """
    fits = {"S37": ("S24", "S39", "S40"), "S41": ("S39", "S40")}.get(hang.scenario, ())
    return hang.severity == "critical" and forecast.scenario in fits and _same_host(hang, forecast)


def _hang_of_a_wait(hang: Finding, wait: Finding) -> bool:
    """Whether the hang explains the wait: a long wait of the same rank, or one that began after the hang."""
    if hang.scenario in STANDSTILLS or SEVERITIES[hang.severity] < SEVERITIES[wait.severity]:
        return False
    same = wait.key.endswith(":spikes") and _same_rank(hang, wait)
    return same or (hang.severity == "critical" and wait.began_ns >= hang.began_ns)


def _wait_that_may_hang(wait: Finding, hang: Finding) -> bool:
    """Whether the hang is only a remark that a sample may hang, which hides no alert that it takes long."""
    return (
        hang.severity == "info" != wait.severity
        and _same_rank(wait, hang)
        and hang.scenario not in STANDSTILLS
    )


def _loader_that_holds_all(one: Finding, other: Finding) -> bool:
    """Whether the ranks seemed to wait for each other, and one is now known to be stuck in its loader."""
    return other.key == "hung:collective" and one.severity == "critical" and one.scenario not in STANDSTILLS


def _standstill(hang: Finding, pauses: Finding) -> bool:
    return hang.severity != "info" and hang.scenario in STANDSTILLS and pauses.scenario == "S26"


def _pauses(pauses: Finding, standstill: Finding) -> bool:
    return standstill.severity == "info" and standstill.scenario in STANDSTILLS and pauses.scenario == "S26"


def _straggler(straggler: Finding, pauses: Finding) -> bool:
    """Whether the other ranks' steps are long because they wait for the straggler's gradients."""
    return straggler.scenario == "S43" and pauses.scenario == "S26" and straggler.rank != pauses.rank


def _slow_steps(cause: Finding, effect: Finding) -> bool:
    """Whether two findings about slow steps have one cause: the rank's own work, or the compiler, which leaves garbage behind."""
    collects = cause.scenario == "S27" and effect.scenario == "S25" and _same_rank(cause, effect)
    return _own_work(cause, effect) or (collects and (cause.lost_s or 0.0) >= (effect.lost_s or 0.0))


def _own_work(slow: Finding, rank: Finding) -> bool:
    """Whether a rank works longer than the others for a reason that is found in it: what is seen of its loop says more."""
    return (
        slow.scenario in ("S25", "S26", "S27")
        and slow.severity != "info"
        and rank.scenario == "S48"
        and _same_rank(slow, rank)
    )


def _proven_cause(slow: Finding, swings: Finding) -> bool:
    """Whether a GPU idles within its steps for a reason that is proven: its own, or that of the rank it waits for.

    The reason must be able to take most of the time that the GPU idles. Copies are none of a place after the model.
    """
    if slow.scenario == "S17" and swings.key.endswith((":other", ":pauses", ":optimizer")):
        return False
    cost, idle = slow.gain_ceiling_ratio, swings.gain_ceiling_ratio
    if cost is not None and idle is not None and cost < PROVEN_PART * idle:
        return False
    proven = (
        slow.severity != "info" and slow.scenario != "S26"
    )  # long steps are what the GPU sees, not why it does
    return slow.scenario == "S48" or (proven and _same_rank(slow, swings))


def _swings(swings: Finding, pauses: Finding) -> bool:
    """Whether steps are long, of whichever rank, and a GPU is known to idle in them."""
    return pauses.scenario == "S26"


def _waited_for(straggler: Finding, swings: Finding) -> bool:
    """Whether the GPU idles because its rank waits for the straggler's gradients."""
    return straggler.scenario == "S43" and straggler.rank != swings.rank


def _memory_and_cache(memory: Finding, thrash: Finding) -> bool:
    """Whether the page cache is too small because growing memory takes its place."""
    return (
        (memory.scenario, thrash.scenario) == ("S24", "S09")
        and memory.severity != "info"
        and _same_host(memory, thrash)
    )


def _same_loader(resumed: Finding, wait: Finding) -> bool:
    return wait.key.split(":")[1] == resumed.key.split(":")[1]


def _before_training(resumed: Finding, effect: Finding) -> bool:
    """Whether the run has not trained yet: what looks slow is the reading of what it throws away."""
    return resumed.ended_ns is None


def _one_stall(cause: Finding, effect: Finding) -> bool:
    """Whether two findings about waits have one cause: the machine, or how a worker reads its part of a stream."""
    return _one_machine(cause, effect) or _refilled(cause, effect) or _in_any_fetch(cause, effect)


def _refilled(refills: Finding, wait: Finding) -> bool:
    """Whether workers that stop to read a block at once cost as much as what looks like a steady lack of workers or CPUs."""
    return (
        refills.scenario == "S33"
        and wait.scenario in AS_IF_SHORT
        and _same_loader(refills, wait)
        and _same_rank(refills, wait)
        and (wait.scenario == "S23" or (refills.lost_s or 0.0) >= (wait.lost_s or 0.0))
    )


def _in_any_fetch(steady: Finding, spikes: Finding) -> bool:
    """Whether the loop waits long for single batches because of what many of the loader's fetches suffer from."""
    return (
        steady.scenario in OF_MANY_FETCHES
        and steady.key.endswith(":steady")
        and spikes.scenario in ("S20", "S21")
        and _same_loader(steady, spikes)
        and _same_rank(steady, spikes)
    )


def _one_machine(one: Finding, other: Finding) -> bool:
    same = one.scenario == other.scenario and one.scenario in OF_THE_HOST and _same_host(one, other)
    return same and one.key < other.key  # the first loader speaks for all


def _one_interpreter(steps: Finding, waits: Finding) -> bool:
    """Whether the thread that slows down the steps makes the loop wait for batches that lie ready, too."""
    return steps.scenario == waits.scenario == "S14" and _same_rank(steps, waits)


_EXPLAINED_BY: Final[dict[tuple[str, str], Callable[[Finding, Finding], bool]]] = {
    ("crashed", "running-out"): _crash_of_what_ran_out,
    ("crashed", "hung"): _same_rank,
    ("crashed", "caught-error"): _same_rank,  # the error that was caught so far, or one that came of it
    ("crashed", "input-bound"): _crash_in_a_wait,
    ("caught-error", "epoch-boundary"): _same_rank,
    ("caught-error", "slow-evaluation"): _same_rank,
    ("hung", "running-out"): _hang_of_what_ran_out,
    ("hung", "input-bound"): _hang_of_a_wait,
    ("hung", "hung"): _loader_that_holds_all,
    ("hung", "slow-step"): _standstill,
    ("slow-step", "hung"): _pauses,
    ("slow-step", "slow-step"): _slow_steps,
    ("slow-step", "gpu-sawtooth"): _proven_cause,
    ("slow-step", "input-bound"): _one_interpreter,
    ("gpu-sawtooth", "slow-step"): _swings,
    ("input-bound", "gpu-sawtooth"): _waited_for,
    ("input-bound", "hung"): _wait_that_may_hang,
    ("input-bound", "slow-step"): _straggler,
    ("input-bound", "input-bound"): _one_stall,
    ("running-out", "input-bound"): _memory_and_cache,
    ("fast-forward", "input-bound"): _same_loader,
    ("fast-forward", "epoch-boundary"): _before_training,
    ("fast-forward", "gpu-sawtooth"): _before_training,
    ("fast-forward", "slow-evaluation"): _before_training,
    ("fast-forward", "slow-step"): _before_training,
}
