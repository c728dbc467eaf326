"""Runs as files: recorded, exported, replayed and analysed again."""
