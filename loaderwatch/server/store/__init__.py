"""The store of runs on disk: what the server asks of a store, and its implementation with DuckDB."""
