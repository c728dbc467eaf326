"""A run's recent past from the store, so that a restarted server goes on where the last one stopped."""

from __future__ import annotations

from loaderwatch.server.store.protocol import Store
from loaderwatch.server.windows import WindowBuilder


def rebuild(store: Store, run_id: str) -> WindowBuilder:
    """A builder that holds the run's last minutes."""
    raise NotImplementedError
