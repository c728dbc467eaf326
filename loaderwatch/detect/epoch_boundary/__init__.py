"""What the end of one epoch and the beginning of the next cost, and why."""
