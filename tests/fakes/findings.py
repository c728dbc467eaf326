"""Findings with sentences of a test's own, which belong to no rule."""

from __future__ import annotations

from typing import Any

from loaderwatch.detect.finding import Finding, Texts, reworded

__all__ = ["finding_of", "reworded"]


def finding_of(**fields: Any) -> Finding:
    """Return a finding; ``title``, ``cause`` and ``advice`` are its sentences."""
    words = {part: fields.pop(part) for part in ("title", "cause", "advice") if part in fields}
    return Finding(texts=Texts(**words), **fields)
