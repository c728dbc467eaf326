"""The routes of the HTTP API, and the shapes of their answers."""
