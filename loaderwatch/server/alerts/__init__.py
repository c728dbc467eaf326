"""Alerts: the book of a run's alerts, and the messages that people get outside the page."""
