"""A run's recent past from the store, so that a restarted server goes on where the last one stopped."""

from __future__ import annotations

from loaderwatch.server.replay import rebuild

__all__ = ["rebuild"]
