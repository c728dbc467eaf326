"""S14 within steps: another thread that computes in Python holds the interpreter, code ``slow-step``.

Such threads compute scores, encode for a writer, or monitor. Each of PyTorch's operators releases the
interpreter's lock and must get it again. A thread that computes in Python releases it only every 5 ms
(``sys.getswitchinterval``). So the training thread neither runs nor lacks a CPU, and is woken some hundred
times a second to request the lock again.
"""

from __future__ import annotations

import numpy as np

from loaderwatch.detect.evidence import RankEvidence, RunEvidence
from loaderwatch.detect.finding import Finding, known_evidence
from loaderwatch.detect.measures.other_work import Held
from loaderwatch.detect.slow_step.step_finding import by_share, step_finding


def detect(run: RunEvidence) -> list[Finding]:
    """Return at most one finding: that of the rank that loses most, because the other ranks wait for it."""
    losses = [
        (share, rank, held)
        for rank in run.live_ranks
        if (held := rank.interpreter_held) is not None
        and (share := _lost_s(rank, held) / held.looked_s) >= run.limits.input_warning_ratio
    ]
    if not losses:
        return []
    share, rank, worst = max(losses, key=lambda loss: loss[0])
    return [_finding(rank, worst, min(1.0, share))]


def _lost_s(rank: RankEvidence, held: Held) -> float:
    """Return the seconds lost outside of waits for data, which other rules report."""
    waited_s = sum(float(np.nansum(pace.since(held.since_ns).wait_s)) for pace in rank.paces)
    return max(0.0, held.blocked_s - waited_s)


def _finding(rank: RankEvidence, held: Held, share: float) -> Finding:
    lost_s = _lost_s(rank, held)
    return step_finding(
        "interpreter-held-in-steps",
        "S14",
        rank,
        severity=by_share(share, rank.limits),
        confidence=0.85,
        began_ns=rank.made_ns - int(held.looked_s * 1e9),
        share=share,
        lost_s=lost_s,
        params={
            "lost_ratio": share,
            "elapsed_s": held.looked_s,
            "at": held.frame.text,
            "blocked_s": held.blocked_s,
            "woken_per_s": held.woken_per_s,
        },
        evidence=known_evidence(
            ("lost-to-the-other-thread", lost_s, "s"),
            ("cpu-of-the-other-threads", held.others_ratio, "ratio"),
            ("training-thread-woken-per-second", held.woken_per_s, "count"),
        ),
        dump=held.dump,
    )
