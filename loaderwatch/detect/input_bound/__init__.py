"""The loop waits for data: whether it is a stall, of which kind, and which cause explains it."""
