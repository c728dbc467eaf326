"""What ``loaderwatch serve`` was asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """One server's settings. ``port`` None: the default one if it is free, else any."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int | None = None
    token: str | None = None
    no_auth: bool = False
    allow_hosts: tuple[str, ...] = ()
    public_url: str | None = None
    notify: tuple[str, ...] = ()
    retain_days: float | None = None
    hang_after_s: float | None = None  # None: the detectors' own limit

    @property
    def runs_dir(self) -> Path:
        """The store's folder."""
        return self.data_dir / "runs"

    @property
    def token_path(self) -> Path:
        """The two tokens, 0600."""
        return self.data_dir / "token.json"

    @property
    def server_path(self) -> Path:
        """Where this server is, while it runs."""
        return self.data_dir / "server.json"

    @property
    def lock_path(self) -> Path:
        """Held while this server runs."""
        return self.data_dir / "server.lock"
