"""Envelopes that wait for the server, and where their files lie."""
