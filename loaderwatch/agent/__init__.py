"""The part in the training process: hooks that time loader, model and optimizer; records in shared memory."""
