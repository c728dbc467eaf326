"""A stored run as windows in time order, for ``loaderwatch analyze``."""

from __future__ import annotations

from collections.abc import Iterator

from loaderwatch.detect.window import RunWindow
from loaderwatch.server.store.protocol import Store


def windows(store: Store, run_id: str, every_s: float = 1.0) -> Iterator[RunWindow]:
    """Windows as the live server would have seen them, one for each ``every_s`` of the run's own time."""
    raise NotImplementedError
