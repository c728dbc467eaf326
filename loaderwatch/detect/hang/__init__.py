"""A run that hangs: where each rank stands, which rank waits for which, and why nothing moves."""
