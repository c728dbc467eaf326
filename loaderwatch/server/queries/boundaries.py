"""The epochs of each loader by their parts, for ``GET /runs/{run}/boundaries``."""

from __future__ import annotations

from typing import Any, Final

from loaderwatch.core import answers
from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.from_records import from_records
from loaderwatch.core.records import UNKNOWN
from loaderwatch.detect.measures.boundaries import usual_wait_s
from loaderwatch.detect.measures.rebuilt_loaders import joined_rank
from loaderwatch.detect.window import RankWindow, RunWindow
from loaderwatch.server.queries.charts import epoch_of, seconds

MOST_EPOCHS: Final = 1000
"""How many epochs of a loader one answer has at most."""

_S: Final = 1e9


def boundaries_of(window: RunWindow, rank: int | None, limit: int) -> list[answers.LoaderEpochs]:
    """Return the loaders of a rank (None: of all ranks) that began an epoch, each with its newest ``limit`` epochs.

    Loaders that are built anew for each epoch are one, as in the findings, and what an epoch cost is what the
    finding about it says.
    """
    found = []
    for number in sorted(window.ranks):
        if rank is None or rank == number:
            one = joined_rank(window.ranks[number])
            loaders = [_epochs_of(one, loader, limit) for loader in one.process.loaders]
            found += [loader for loader in loaders if loader.epochs]
    return found


def _epochs_of(rank: RankWindow, loader: LoaderInfo, limit: int) -> answers.LoaderEpochs:
    usual_s = usual_wait_s(rank, loader)
    begins = _rows(rank.table("epoch_begins"), loader.loader)
    ends = {row["epoch"]: row for row in _rows(rank.table("epoch_ends"), loader.loader)}
    parts = [
        _parts(begin, ends.get(begin["epoch"], {}), begins[at + 1] if at + 1 < len(begins) else {}, usual_s)
        for at, begin in enumerate(begins)
    ]
    return from_records(
        answers.LoaderEpochs,
        loader,
        rank=rank.rank,
        epochs=len(parts),
        cost_s=sum(each.cost_s for each in parts),
        usual_wait_s=usual_s,
        newest=parts[-limit:],
    )


def _rows(table: Columns, loader: int) -> list[dict[str, Any]]:
    """Return the loader's rows, oldest first; None where a value is not known."""
    columns = {name: values[table["loader"] == loader].tolist() for name, values in table.items()}
    return [
        {name: None if value == UNKNOWN else value for name, value in zip(columns, row, strict=True)}
        for row in zip(*columns.values(), strict=True)
    ]


def _parts(
    begin: dict[str, Any], end: dict[str, Any], after: dict[str, Any], usual_s: float
) -> answers.EpochParts:
    ended = {name: end.get(name) for name in ("teardown_ns", "batches", "ended_by")}
    epoch = epoch_of({**begin, "end_ns": end.get("request_ns"), **ended})
    iter_s, first_s = epoch.iter_s, epoch.first_wait_s
    steady_s = None
    if epoch.ended_at is not None and iter_s is not None and first_s is not None:
        steady_s = max(0.0, (end["request_ns"] - begin["request_ns"]) / _S - iter_s - first_s)
    return from_records(
        answers.EpochParts,
        epoch,
        start_s=None if iter_s is None else max(0.0, iter_s - (epoch.sampler_s or 0.0)),
        first_batch_s=first_s,
        steady_s=steady_s,
        gap_s=seconds(after.get("gap_ns")),
        cost_s=(iter_s or 0.0) + max(0.0, (first_s or 0.0) - usual_s) + (epoch.teardown_s or 0.0),
    )
