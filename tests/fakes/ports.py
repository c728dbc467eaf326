"""Ports for servers that must have the same one again, or one that is known before they start."""

from __future__ import annotations

import contextlib
import os
import socket

_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_PORTS = iter(range(20_000 + 500 * _WORKER, 20_500 + 500 * _WORKER))  # Linux gives out its own from 32,768 on


def next_free_port() -> int:
    """A TCP port on 127.0.0.1 that neither the system nor a parallel test gives to anybody else."""
    for port in _PORTS:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("there are no ports left")
