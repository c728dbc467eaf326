"""The helper process: one per host and run. Drains rings, samples hardware, uploads envelopes."""
