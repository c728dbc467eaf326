"""Summaries of a run with as many ranks as a test wants."""

from __future__ import annotations

from typing import Any

from loaderwatch.core.answers import RankRow, Summary, Verdict


def rank_row(rank: int, **more: Any) -> RankRow:
    """A rank that goes on; the later, the longer it waits."""
    facts: dict[str, Any] = {
        "rank": rank, "host": f"gpu{rank // 8:02d}", "pid": 4000 + rank, "state": "live", "exit": None,
        "watched": True,
        "step": 100, "epoch": 0, "batch": 100, "phase": "wait", "phase_age_s": 0.1, "steps_per_s": 10.0,
        "data_wait_ratio": rank / 1000, "step_s": 0.1, "wait_s": 0.01, "ready_batches": 2, "gpu": rank % 8,
        "gpu_utilization_ratio": 0.9, "seen_at": 1000.0,
    }  # fmt: skip
    return RankRow(**(facts | more))


def summary_with(rows: list[RankRow], **more: Any) -> Summary:
    """A summary of a run that goes on, with these ranks."""
    facts: dict[str, Any] = {
        "run_id": "run-1", "name": "train.py", "state": "live", "started_at": 0.0, "last_seen_at": 1000.0,
        "now": 1000.0,
        "world_size": len(rows), "hosts": [], "steps": 100, "steps_per_s": 10.0, "data_wait_ratio": 0.1,
        "gpu_utilization_ratio": 0.9, "gpu_starved_ratio": None, "compute_duty_ratio": 0.9,
        "goodput_ratio": 0.9, "lost_s": 1.0, "lost_records": 0, "simulated_gpu": False, "epochs": 1,
        "verdict": Verdict(severity="ok", title="Keeps up."), "loaders": [], "ranks": rows,
    }  # fmt: skip
    return Summary(**(facts | more))
