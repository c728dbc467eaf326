"""Waits for data: which of them are stalls, of which kind, and from which cause."""
