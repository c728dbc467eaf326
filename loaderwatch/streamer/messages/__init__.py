"""Files by which a run's processes, its streamer and the server pass messages."""
