"""How a DataLoader and its loop get on with each other: below the agent, which tunes with it, and the advice, which predicts with it."""
