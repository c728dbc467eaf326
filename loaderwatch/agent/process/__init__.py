"""The training process: its rank and run, the streamer that it starts, its signals, its garbage collector."""
