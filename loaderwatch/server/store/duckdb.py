"""The embedded store: one DuckDB file per run."""

from __future__ import annotations

from pathlib import Path


class DuckDBStore:
    """Runs as ``runs_dir/<run_id>.duckdb``. See ``store.protocol.Store``."""

    def __init__(self, runs_dir: Path) -> None:
        raise NotImplementedError
