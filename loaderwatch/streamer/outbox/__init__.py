"""Envelopes that wait for the server, and their files."""
