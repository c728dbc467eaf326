"""A training process that died: what it left behind, and which rule explains it."""
