"""Several servers on one database: what is asked of one is answered by the one that owns the run."""
