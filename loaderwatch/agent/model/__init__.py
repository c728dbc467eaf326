"""The model's side of a step: phases from PyTorch's public hooks, and how long the GPU starved."""
