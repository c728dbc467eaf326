"""The epochs of each loader and their parts, for ``GET /runs/{run}/boundaries``."""

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
"""Most epochs of a loader in one answer."""

_S: Final = 1e9


def boundaries_of(window: RunWindow, rank: int | None, limit: int) -> list[answers.LoaderEpochs]:
    """Return the loaders that started an epoch, with their newest ``limit`` epochs. Rank None: all ranks.

    Loaders that are rebuilt for each epoch count as one, and epochs cost the same as in the findings.
    """
    loaders_with_epochs = []
    for number in sorted(window.ranks):
        if rank is None or rank == number:
            joined = joined_rank(window.ranks[number])
            loaders = [_epochs_of(joined, loader, limit) for loader in joined.process.loaders]
            loaders_with_epochs += [loader for loader in loaders if loader.epochs]
    return loaders_with_epochs


def _epochs_of(rank: RankWindow, loader: LoaderInfo, limit: int) -> answers.LoaderEpochs:
    usual_s = usual_wait_s(rank, loader)
    begins = _rows(rank.table("epoch_begins"), loader.loader)
    ends = {row["epoch"]: row for row in _rows(rank.table("epoch_ends"), loader.loader)}
    parts = [
        _parts(begin, ends.get(begin["epoch"], {}), begins[i + 1] if i + 1 < len(begins) else {}, usual_s)
        for i, begin in enumerate(begins)
    ]
    return from_records(
        answers.LoaderEpochs,
        loader,
        rank=rank.rank,
        epochs=len(parts),
        cost_s=sum(part.cost_s for part in parts),
        usual_wait_s=usual_s,
        newest=parts[-limit:],
    )


def _rows(table: Columns, loader: int) -> list[dict[str, Any]]:
    """Return the loader's rows, oldest first; unknown values are None."""
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
