"""The parent of a job under ``loaderwatch run`` with ``--on-alert`` or ``--restart-on-hang``."""
