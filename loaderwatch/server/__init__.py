"""The server: ingest, store, live windows, queries, alerts and the page. Never imported by the agent."""
