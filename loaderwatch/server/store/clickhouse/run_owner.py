"""Which of several servers owns a run, by rendezvous hashing: all that know the same servers agree, and nobody is asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class Server:
    """A server of a database: its id, which its data directory keeps, and the address at which the others reach it."""

    id: str
    url: str


def owner_of(run_id: str, servers: Iterable[Server]) -> Server:
    """Return the server with the highest hash. When one comes or goes, only the runs that it gets or had move.

    Raises:
        ValueError: there is no server.
    """
    return max(servers, key=lambda server: (_weight(server.id, run_id), server.id))


def _weight(server_id: str, run_id: str) -> bytes:
    return blake2b(f"{server_id}\n{run_id}".encode(), digest_size=8).digest()
