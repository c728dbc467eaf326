"""Input-bound: the loop stands still because no batch is there. Code ``input-bound``.

Scenarios: S01 to S23, S25, S43, S49, S54 and S58.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from loaderwatch.core.answers import Text
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import INPUT_BOUND as CODE
from loaderwatch.detect.epoch_boundary.fast_forward import only_reads
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, who
from loaderwatch.detect.input_bound.dispatch import as_dispatch
from loaderwatch.detect.input_bound.stalls import Stall, stalls_of
from loaderwatch.detect.input_bound.straggler import as_slow, as_straggler, waited_for
from loaderwatch.detect.shared_thresholds import QUIET_RATIO

MOST_WAITING_RANKS: Final = threshold(
    48, "ranks", "chosen: limits the costly close look to the worst; others that wait as much are only named"
)


def detect(run: RunEvidence) -> list[Finding]:
    """Return one finding per loader and kind of wait (steady, or single long ones), over all ranks."""
    live = [rank for rank in run.live_ranks if rank.process.other_stream is not None]
    waiting = run.wait_ratios(live)
    loud = sorted(
        (rank for rank in live if waiting[rank.rank] >= QUIET_RATIO), key=lambda rank: -waiting[rank.rank]
    )
    groups: dict[tuple[int, bool], list[Stall]] = {}
    for rank in loud[:MOST_WAITING_RANKS]:
        iterated = {now.loader.loader for now in rank.recent_paces}
        for pace in rank.paces:
            if pace.loader.loader not in iterated or only_reads(rank, pace.loader):
                continue
            for stall in stalls_of(rank, pace):
                groups.setdefault((pace.loader.loader, stall.spiky), []).append(stall)
    # Ranks without a close look that wait as much: the finding of steady waits names them, too.
    more = [
        rank.rank
        for rank in loud[MOST_WAITING_RANKS:]
        if waiting[rank.rank] >= run.limits.input_warning_ratio
    ]
    findings: dict[str, Finding] = {}
    for (loader, spiky), stalls in sorted(groups.items()):  # the steady ones of each loader first
        finding = _finding(run, stalls, [] if spiky else more)
        steady = findings.get(f"{CODE}:{loader}:steady")
        if (
            spiky
            and _worst(stalls).explanation.steady
            and (steady is None or steady.scenario == finding.scenario)
        ):
            # One cause gives one alert, whichever of the two kinds of wait it causes at the moment.
            finding = steady or msgspec.structs.replace(
                finding, key=f"{CODE}:{loader}:steady", aspect="steady"
            )
        findings[finding.key] = finding
    return as_dispatch(
        run, list(findings.values()), [stall for stalls in groups.values() for stall in stalls]
    )


def _worst(stalls: Sequence[Stall]) -> Stall:
    return max(stalls, key=lambda stall: stall.lost_s)


def _finding(run: RunEvidence, stalls: Sequence[Stall], more: list[int]) -> Finding:
    worst = _worst(stalls)
    rank, loader, cause = worst.pace.rank, worst.pace.loader, worst.explanation
    ranks = run.window.standing_for(sorted([stall.pace.rank.rank for stall in stalls] + more))
    world = run.world_size
    kind = "spikes" if worst.spiky else "steady"
    awaited = waited_for(worst, run) if not worst.spiky and len(ranks) == 1 < world else None
    if awaited is not None:
        ranks = sorted([*ranks, *as_slow(worst, run, awaited)])
    finding = Finding(
        key=f"{CODE}:{loader.loader}:{kind}",
        loader=loader.loader,
        aspect=kind,
        code=CODE,
        scenario=cause.scenario,
        severity=worst.severity,
        confidence=cause.confidence,
        began_ns=min(stall.began_ns for stall in stalls),
        rule=cause.rule,
        params=cause.params,
        frame=_frame(worst, ranks, world),
        also=cause.also,
        evidence=[*worst.symptoms.evidence(worst.share), *cause.evidence],
        rank=rank.rank if len(ranks) < world or world <= 1 or worst.spiky else None,
        host=rank.host,
        worker=cause.worker,
        pid=cause.pid,
        sample_indices=cause.sample_indices,
        lost_s=worst.lost_s,
        gain_ceiling_ratio=cause.gain_ceiling_ratio,
        stacks=cause.stacks,
    )
    if awaited is not None and len(ranks) == 1:
        return as_straggler(finding, worst, run, awaited)
    return finding


def _frame(stall: Stall, ranks: list[int], world: int) -> Text:
    """Return the title: which ranks lose how much of their time, and why."""
    elapsed_s, between = stall.pace.elapsed_s, bool(stall.pace.loader.between_steps)
    return Text(
        "lost-waiting" if stall.spiky else "waits-between-steps" if between else "waits-for-data",
        {
            **who([stall.pace.rank.rank] if stall.spiky else ranks, world),
            "lost_s": stall.lost_s,
            "share_ratio": stall.share,
            "elapsed_s": elapsed_s,
            "loader": stall.source,
            "because": stall.explanation.said("because"),
        },
    )
