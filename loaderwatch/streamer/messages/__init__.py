"""What a run's processes, its streamer and the server leave for one another in files."""
