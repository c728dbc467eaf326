"""The server: ingest, store, live runs, alerts, recordings, HTTP API, page. The agent never imports it."""
