"""The routes of the HTTP API, and the page's files."""
