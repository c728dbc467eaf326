"""What it costs to end one epoch and begin the next, and why."""
