"""The moments at which a stack is taken without a request: a handful an hour."""
