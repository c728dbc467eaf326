"""Recordings: runs as files, their export, replay and new analysis, and the verdicts of ended runs."""
