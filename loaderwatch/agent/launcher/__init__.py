"""Watches scripts that do not name loaderwatch: a ``sitecustomize`` on their path attaches, or reports to the doctor."""
