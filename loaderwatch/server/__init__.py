"""The server: ingest, store, live runs, alerts, recordings, HTTP API and the page. The agent never imports it."""
