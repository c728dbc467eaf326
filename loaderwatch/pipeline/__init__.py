"""The simulation of a DataLoader and its loop. The agent uses it to tune, the advice to predict."""
