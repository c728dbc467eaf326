"""A training process that died because a sample took longer than ``attach(sample_timeout=)`` allows."""

from __future__ import annotations

import re
from typing import Final

from loaderwatch.detect.crash.death_traces import sample_at_death, worker_of
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.window import RankWindow

# The C library's name for the signals that the timer sends to a worker. Nobody else uses them on workers.
TIMER_SIGNAL: Final = "Real-time signal"
_ERROR: Final = re.compile(r"uncaught SampleTimeout\b")
_WORDS: Final = re.compile(
    r".*SampleTimeout: (?P<what>.+? than .+?)\. (?P<rest>.*?)(?: Look at| Give that|$)", re.DOTALL
)


def of_its_error(rank: RankWindow, text: str) -> Explanation | None:
    """Explain a death by SampleTimeout from the last words; None if the error was another one."""
    if not _ERROR.match(text):
        return None
    words = _WORDS.match(text)
    rows = rank.table("sample_timeouts")
    indices = [int(index) for index in rows["index"][-1:] if index >= 0]
    return Explanation(
        "",
        0.95,
        rule="sample-took-too-long",
        params={
            "error_says": words["what"] if words else None,
            "error_adds": words["rest"] if words else None,
        },
        worker=int(rows["worker"][-1]) if rows["worker"].size and rows["worker"][-1] >= 0 else None,
        sample_indices=indices,
    )


def of_its_signal(rank: RankWindow, pid: int) -> Explanation:
    """Explain a worker killed by the timer's signal while the training loop was elsewhere."""
    worker = worker_of(rank, pid)
    index = sample_at_death(worker)
    return Explanation(
        "",
        0.9,
        rule="worker-ended-at-slow-sample",
        params={
            "process": "worker",
            "worker": worker.worker if worker is not None else None,
            "pid": pid,
            "sample": index,
        },
        worker=worker.worker if worker is not None else None,
        pid=pid,
        sample_indices=[] if index is None else [index],
    )
