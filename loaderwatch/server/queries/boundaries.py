"""The epochs of each loader by their parts, for ``GET /runs/{run}/boundaries``."""

from __future__ import annotations

from typing import Any, Final

from loaderwatch.core import answers
from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.records import UNKNOWN, EndedBy, IterKind
from loaderwatch.detect.measures.boundaries import usual_wait_s
from loaderwatch.detect.measures.rebuilt_loaders import joined_rank
from loaderwatch.detect.window import RankWindow, RunWindow

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
    return answers.LoaderEpochs(
        rank=rank.rank,
        loader=loader.loader,
        name=loader.name,
        role=loader.role,
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
    iter_s, sampler_s = _seconds(begin["iter_ns"]), _seconds(begin["sampler_ns"])
    first_s, teardown_s = _seconds(begin["first_wait_ns"]), _seconds(end.get("teardown_ns"))
    start_s = None if iter_s is None else max(0.0, iter_s - (sampler_s or 0.0))
    began_at = begin["request_ns"] / _S
    ended_ns = end.get("request_ns")
    steady_s = None
    if ended_ns is not None and iter_s is not None and first_s is not None:
        steady_s = max(0.0, (ended_ns - begin["request_ns"]) / _S - iter_s - first_s)
    return answers.EpochParts(
        epoch=begin["epoch"],
        began_at=began_at,
        start_s=start_s,
        sampler_s=sampler_s,
        first_batch_s=first_s,
        steady_s=steady_s,
        teardown_s=teardown_s,
        gap_s=_seconds(after.get("gap_ns")),
        cost_s=(iter_s or 0.0) + max(0.0, (first_s or 0.0) - usual_s) + (teardown_s or 0.0),
        ended_at=_seconds(ended_ns),
        ended_by=_name(EndedBy, end.get("ended_by")),
        batches=end.get("batches"),
        iter_kind=_name(IterKind, begin["iter_kind"]),
        workers=begin["workers"],
        drained=begin["drained"],
    )


def _seconds(value: int | None) -> float | None:
    return None if value is None else value / _S


def _name(kind: type[IterKind] | type[EndedBy], value: int | None) -> str | None:
    """Return the code's name in lower case; None for one that a newer agent sent."""
    return None if value is None or value not in kind._value2member_map_ else kind(value).name.lower()
