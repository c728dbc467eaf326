"""Steps that are slow for other reasons than data."""
