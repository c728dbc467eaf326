"""Resources that run out: memory, disk, file descriptors, shared memory, and batches read ahead."""
