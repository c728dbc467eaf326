"""What the routes answer: built from the store and from the live window, for one run at a time."""
