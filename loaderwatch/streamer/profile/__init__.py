"""The profile: samples of stacks at random moments while a rank loses time."""
