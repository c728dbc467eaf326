"""Which server owns a run, by rendezvous hashing: servers that know the same servers agree without asking."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class Server:
    """A server of a database: its id, kept in its data directory, and the address for other servers."""

    id: str
    url: str


def owner_of(run_id: str, servers: Iterable[Server]) -> Server:
    """Return the server with the highest hash. When a server comes or goes, only its own runs move."""
    return max(servers, key=lambda server: (_weight(server.id, run_id), server.id))


def _weight(server_id: str, run_id: str) -> bytes:
    return blake2b(f"{server_id}\n{run_id}".encode(), digest_size=8).digest()
