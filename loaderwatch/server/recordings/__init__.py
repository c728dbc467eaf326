"""Recordings: runs as files, with export, replay and new analysis, and the verdicts of ended runs."""
