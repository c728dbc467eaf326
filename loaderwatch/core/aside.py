"""Names for files that are set aside: what a person may still want to look at is never written over."""

from __future__ import annotations

from pathlib import Path


def free_path(path: Path) -> Path:
    """``path`` if nothing is there, else the first of ``path-2``, ``path-3``, … that is free."""
    target, number = path, 1
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}-{number}")
    return target
