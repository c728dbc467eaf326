"""Where runs lie on disk: the protocol of meanings and its implementations."""
