"""What a process waits for in a loader phase: the name of the loader, and whether it trains or evaluates."""

from __future__ import annotations

from loaderwatch.core.answers import Text
from loaderwatch.core.facts import SpanInfo
from loaderwatch.detect.window import RankWindow


def loader_name(rank: RankWindow, span: SpanInfo) -> str | None:
    """Return the name of the span's loader, as attached or found in the script; None if unknown."""
    loader = rank.loader(span.loader)
    return None if loader is None else loader.name


def workers_of(rank: RankWindow, span: SpanInfo) -> list[SpanInfo]:
    """Return the workers of the span's loader; if the loader is unknown, the workers of all loaders."""
    return [w for w in rank.workers if span.loader is None or w.loader in (None, span.loader)]


def loader_evidence(rank: RankWindow, span: SpanInfo) -> Text:
    """Return the span's loader as evidence: its name, or "the loader"."""
    return Text("hang-loader", {"loader": loader_name(rank, span)})


def evaluates(rank: RankWindow, span: SpanInfo) -> bool:
    """Whether the span's loader feeds an evaluation: a validation or a test."""
    loader = rank.loader(span.loader)
    return loader is not None and loader.role == "eval"
