"""The answers of the routes, built from the store and the live window, for one run at a time."""
