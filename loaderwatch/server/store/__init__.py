"""The store of runs on disk: the protocol that the server uses, implemented with DuckDB and ClickHouse."""
