"""The streamer, a helper process per host and run: it drains rings, samples hardware, uploads envelopes."""
