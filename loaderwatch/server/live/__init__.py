"""Live runs: their windows in memory, summary and verdict, and commands to their streamers."""
