"""What a process waits for in a phase of a loader, in words that name the loader and say whether it trains or evaluates."""

from __future__ import annotations

from loaderwatch.core.facts import SpanInfo
from loaderwatch.detect.window import RankWindow

ANY_LOADER = "the loader"


def name_of(rank: RankWindow, span: SpanInfo) -> str:
    """Return the name of the span's loader, as it was attached or found in the script; "the loader" where none is known."""
    loader = rank.loader(span.loader)
    return loader.name if loader is not None else ANY_LOADER


def loader_name(rank: RankWindow, span: SpanInfo) -> str | None:
    """Return the name of the span's loader; None where none is known."""
    loader = rank.loader(span.loader)
    return None if loader is None else loader.name


def workers_of(rank: RankWindow, span: SpanInfo) -> list[SpanInfo]:
    """Return the workers of the span's loader; those of all loaders where it is not known."""
    return [w for w in rank.workers if span.loader is None or w.loader in (None, span.loader)]


def evaluates(rank: RankWindow, span: SpanInfo) -> bool:
    """Whether the span's loader feeds an evaluation: a validation or a test."""
    loader = rank.loader(span.loader)
    return loader is not None and loader.role == "eval"


def call_of(rank: RankWindow, span: SpanInfo) -> str:
    """Return the place in the loop where a process waits, as "next(val_loader)"."""
    name = name_of(rank, span)
    return {"iter": f"iter({name})", "teardown": f"the end of an epoch of {name}"}.get(
        span.phase, f"next({name})"
    )
