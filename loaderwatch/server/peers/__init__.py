"""Several servers on one database: a request to any of them is answered by the owner of the run."""
