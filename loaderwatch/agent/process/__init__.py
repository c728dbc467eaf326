"""The training process itself: who it is in its run, the streamer it starts, its signals and its garbage collector."""
