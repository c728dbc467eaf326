"""The simulation of a DataLoader and its loop. The agent tunes with it, and the advice predicts with it."""
