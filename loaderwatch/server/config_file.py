"""The file ``config.toml`` of a data directory, and the options with which its server was started."""

from __future__ import annotations

import logging
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from loaderwatch.core.config import DataDir
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.files import read_own, write_atomically
from loaderwatch.core.system import HAS_OWNERS
from loaderwatch.core.wire import UNDECODABLE
from loaderwatch.server.alerts.recipients import Recipient, Recipients, parse_notify

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


@dataclass(frozen=True, slots=True)
class Config:
    """The content of the file; a missing file is empty."""

    notify: Recipients = field(default_factory=Recipients)

    def recipients(self, given: tuple[str, ...]) -> tuple[Recipient, ...]:
        """Return the recipients of every run: the addresses given to the server, else those of the file."""
        return self.notify.of(given) if given else self.notify.named


def read_config(path: Path) -> Config:
    """Read the file.

    Raises:
        ConfigError: the file is unreadable or not TOML, or has an unusable key or value.
    """
    try:
        table = msgspec.toml.decode(read_own(path))
    except FileNotFoundError:
        return Config()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    for key in table:
        if key != "notify":
            raise ConfigError(f"{path} has the unknown key {key!r}; use notify")
    return Config(parse_notify(table["notify"], str(path)) if "notify" in table else Recipients())


class ConfigFile:
    """The file as a running server follows it.

    Raises:
        ConfigError: as ``read_config``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mark = self._look()
        self.config = read_config(path)

    def reread(self) -> bool:
        """Read the file again if it changed; return whether it did. An unusable file changes nothing.

        Raises:
            ConfigError: as ``read_config``, once per change.
        """
        mark = self._look()
        if mark == self._mark:
            return False
        self._mark = mark
        self.config = read_config(self.path)
        return True

    def _look(self) -> tuple[int, int, int] | None:
        try:
            stat_result = self.path.stat()
        except OSError:
            return None
        return stat_result.st_ino, stat_result.st_mtime_ns, stat_result.st_size


def is_open_to_others(path: Path) -> bool:
    """Whether other users of the machine can read the file."""
    try:
        return HAS_OWNERS and bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
    except OSError:
        return False
