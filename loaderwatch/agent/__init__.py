"""The training process: hooks that time the loader and write what they see into shared memory. Nothing else."""
