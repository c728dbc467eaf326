"""The routes of the HTTP API, the shapes of their answers, and the page's files."""
