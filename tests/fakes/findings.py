"""Findings with sentences of a test's own, which belong to no rule."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from loaderwatch.detect.finding import Finding, Texts


def finding_of(**fields: Any) -> Finding:
    """Return a finding; ``title``, ``cause`` and ``advice`` are its sentences."""
    return Finding(texts=Texts(**_sentences(fields)), **fields)


def reworded(finding: Finding, **changes: Any) -> Finding:
    """Return the finding with other fields; ``title``, ``cause`` and ``advice`` are its sentences."""
    texts = replace(finding.texts, **_sentences(changes))
    return replace(finding, texts=texts, **changes)


def _sentences(fields: dict[str, Any]) -> dict[str, str]:
    """Take the sentences out of the fields, and return them."""
    return {part: fields.pop(part) for part in ("title", "cause", "advice") if part in fields}
