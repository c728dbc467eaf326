"""A run that stands still: where each rank stands, who waits for whom, and why nothing comes."""
