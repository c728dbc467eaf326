"""A training process that died of an error which a fetch raised: the sample, who read it, and the line."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

from loaderwatch.core.answers import Evidence
from loaderwatch.core.facts import FailedSample
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.window import RankWindow

MOST_NAMED: Final = 8
"""Samples of a batch that the title and the evidence name."""


def of_its_fetch(rank: RankWindow) -> Explanation | None:
    """Explain a death by an error that reading or collating samples raised; None where no fetch raised it."""
    failed = rank.process.failed
    if failed is None:
        return None
    at = failed.at
    where = f", at {PurePath(at.file).name}:{at.line} in {at.function}" if at is not None else ""
    error = f": {failed.error.rstrip('.')}" if failed.error else ""
    who = f"worker {failed.worker}" if failed.worker >= 0 else "the training process"
    indices = [] if failed.counted else [each for each in failed.indices if isinstance(each, int)]
    loader = rank.loader(failed.loader)
    return Explanation(
        "",
        0.95,
        f"of an error that {who} raised {_what(failed)}{where}{error}",
        f"The error came up while {who} read for {loader.name if loader is not None else 'a loader'}. The loop got it in place of a batch.",
        _advice(failed),
        worker=failed.worker if failed.worker >= 0 else None,
        sample_indices=indices[:MOST_NAMED],
        evidence=[Evidence(label="failed in", value=f"{at.file}:{at.line} in {at.function}", unit="text")]
        if at is not None
        else [],
    )


def _what(failed: FailedSample) -> str:
    """Return on what, or while doing what with it, the error was raised, in words."""
    if failed.samples == 1:
        if not failed.indices:
            return "on a sample"
        index = failed.indices[0]
        return f"on sample number {index} of an iterable dataset" if failed.counted else f"on sample {index}"
    if not failed.indices:
        return "on a batch"
    named = ", ".join(map(str, failed.indices[:MOST_NAMED]))
    rest = failed.samples - min(len(failed.indices), MOST_NAMED)
    if failed.collating:
        return (
            f"while collating samples {named} and {rest} more" if rest else f"while collating samples {named}"
        )
    return f"on samples {named} and {rest} more" if rest else f"on samples {named}"


def _advice(failed: FailedSample) -> str:
    """Return what to change first."""
    if failed.collating:
        return "Collate these samples alone to see which one differs: collate_fn([dataset[i], dataset[j]]). Make their shapes and types alike, or pad them."
    if failed.counted or not failed.indices:
        return "Read the dataset alone, without a DataLoader, up to that sample. Repair what it reads, or let the dataset leave it out."
    if failed.samples > 1:
        return "Read this batch alone to see which sample fails. Repair that sample, or let the dataset leave it out."
    return f"Read that sample alone: dataset[{failed.indices[0]!r}] raises the same error. Repair it, or let the dataset leave it out."
