"""The streamer, a helper process for each host and run: it drains rings, samples hardware and uploads envelopes."""
