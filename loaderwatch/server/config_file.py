"""The file ``config.toml`` of a data directory: its server's settings, whoever starts the server."""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from loaderwatch.core.errors import ConfigError
from loaderwatch.core.files import read_own
from loaderwatch.core.system import HAS_OWNERS
from loaderwatch.server.alerts.recipients import Recipient, Recipients, parse_notify


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
