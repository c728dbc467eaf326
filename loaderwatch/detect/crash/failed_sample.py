"""A training process that died of an error in a fetch: which sample, which reader, which line."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

from loaderwatch.core.answers import Param, Text
from loaderwatch.core.facts import Call, FailedSample
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.finding import observed
from loaderwatch.detect.window import RankWindow

MOST_FAILED_SAMPLES_NAMED: Final = threshold(8, "samples", "chosen: more names make a title unreadable")


def of_its_fetch(rank: RankWindow) -> Explanation | None:
    """Explain a death by an error from reading or collating samples; None if no fetch raised the error."""
    failed = rank.process.failed
    if failed is None:
        return None
    at = failed.at
    params: dict[str, Param] = {
        "worker": failed.worker if failed.worker >= 0 else None,
        "loader": None,
        "file": PurePath(at.file).name if at is not None else None,
        "line": at.line if at is not None else None,
        "function": at.function if at is not None else None,
        "error": failed.error.rstrip(".") if failed.error else None,
        "advice": _advice(failed),
    }
    indices = [] if failed.counted else [index for index in failed.indices if isinstance(index, int)]
    loader = rank.loader(failed.loader)
    if loader is not None:
        params["loader"] = loader.name
    rule, named = _named(failed)
    return Explanation(
        "",
        0.95,
        rule=rule,
        params={**params, **named},
        worker=failed.worker if failed.worker >= 0 else None,
        sample_indices=indices[:MOST_FAILED_SAMPLES_NAMED],
        evidence=[] if at is None else [observed("failed-in", _line(at), "text")],
    )


def _line(at: Call) -> Text:
    return Text("code-line", {"file": at.file, "line": at.line, "function": at.function})


def _named(failed: FailedSample) -> tuple[str, dict[str, Param]]:
    """Return the rule, and the samples that raised the error as far as they are known."""
    if failed.samples == 1:
        index = failed.indices[0] if failed.indices else None
        return "sample-raised-error", {"sample": index, "key": repr(index), "counted": failed.counted}
    first = failed.indices[:MOST_FAILED_SAMPLES_NAMED]
    return (
        "collating-raised-error" if failed.collating else "batch-raised-error",
        {
            "samples": ", ".join(map(str, first)) if first else None,
            "more": max(0, failed.samples - len(first)),
        },
    )


def _advice(failed: FailedSample) -> str:
    """Return the advice: "collate" alone, read a stream "up-to" the sample, or read the sample "alone"."""
    if failed.collating:
        return "collate"
    return "up-to" if failed.counted or not failed.indices else "alone"
