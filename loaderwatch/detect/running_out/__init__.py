"""Resources that run out: memory, file descriptors, shared memory."""
