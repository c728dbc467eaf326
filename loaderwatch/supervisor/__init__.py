"""The parent of a job under ``loaderwatch run`` with ``--on-alert``, ``--restart-on-hang`` or ``--keep-output``."""
