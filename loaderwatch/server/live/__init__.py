"""Runs while they are live: windows in memory, verdict, commands to the streamers."""
