"""What runs in the training process: hooks that time loader, model and optimizer and write records into shared memory."""
