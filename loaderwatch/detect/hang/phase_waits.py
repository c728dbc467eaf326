"""What a process waits for in a phase of a loader, in words that name the loader and say whether it trains or evaluates."""

from __future__ import annotations

from loaderwatch.core.answers import Text
from loaderwatch.core.facts import SpanInfo
from loaderwatch.detect.window import RankWindow


def loader_name(rank: RankWindow, span: SpanInfo) -> str | None:
    """Return the name of the span's loader, as it was attached or found in the script; None where none is known."""
    loader = rank.loader(span.loader)
    return None if loader is None else loader.name


def workers_of(rank: RankWindow, span: SpanInfo) -> list[SpanInfo]:
    """Return the workers of the span's loader; those of all loaders where it is not known."""
    return [w for w in rank.workers if span.loader is None or w.loader in (None, span.loader)]


def loader_evidence(rank: RankWindow, span: SpanInfo) -> Text:
    """Return the span's loader as evidence has it: its name, or "the loader"."""
    return Text("hang-loader", {"loader": loader_name(rank, span)})


def evaluates(rank: RankWindow, span: SpanInfo) -> bool:
    """Whether the span's loader feeds an evaluation: a validation or a test."""
    loader = rank.loader(span.loader)
    return loader is not None and loader.role == "eval"
