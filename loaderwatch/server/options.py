"""The options of ``loaderwatch serve``, and the file that remembers them while the server runs."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from loaderwatch.core.config import DataDir
from loaderwatch.core.files import read_own, write_atomically
from loaderwatch.core.wire import UNDECODABLE

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServeOptions(DataDir):
    """One server's options. With ``port`` None the server takes the default port if free, else any."""

    host: str = "127.0.0.1"
    port: int | None = None
    token: str | None = None
    agent_token: str | None = None  # beside the one in token.json
    no_auth: bool = False
    allow_hosts: tuple[str, ...] = ()
    public_url: str | None = None
    notify: tuple[str, ...] = ()
    retain_days: float | None = None
    store: str | None = None  # the address of a ClickHouse database; None: DuckDB in the data directory
    advertise: str | None = None  # this server's address for the other servers of that database
    ssl_certfile: Path | None = None
    ssl_keyfile: Path | None = None
    hang_after_s: float | None = None  # None: the detectors' own limit
    idle_hours: float | None = None  # leave after this time without a report or a look; None: never
    started_by: str = "hand"  # or "run", "demo"
    resumed: bool = False  # continues a killed server, at its port if that is free, else at any


def remember(options: ServeOptions) -> None:
    """Write the options down for a server that continues this one if it is killed.

    Raises:
        OSError: the file cannot be written.
    """
    write_atomically(options.remembered_path, msgspec.json.encode(options, enc_hook=str))


_decode: Final = msgspec.json.Decoder(ServeOptions, dec_hook=lambda kind, value: kind(value)).decode


def remembered(data_dir: Path) -> ServeOptions | None:
    """Return the options of this directory's last server if it was killed; None if it ended normally."""
    path = DataDir(data_dir).remembered_path
    try:
        options: ServeOptions = _decode(read_own(path))
    except FileNotFoundError:
        return None
    except (OSError, *UNDECODABLE) as error:
        _log.warning("%s is not readable (%s); going on with the usual options", path, error)
        return None
    return replace(options, data_dir=data_dir, resumed=True)
