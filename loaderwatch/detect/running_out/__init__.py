"""What runs out: memory, file descriptors, shared memory."""
