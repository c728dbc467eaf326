"""Watches scripts that do not import loaderwatch: a ``sitecustomize`` attaches or reports to the doctor."""
