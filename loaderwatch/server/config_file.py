"""The file ``config.toml`` of a data directory, in which a person sets up its server once, whoever starts it."""

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
    """What the file says; of a file that is not there, nothing."""

    notify: Recipients = field(default_factory=Recipients)

    def recipients(self, given: tuple[str, ...]) -> tuple[Recipient, ...]:
        """Return whom a server tells of every run: the addresses that it was given, else those of the file."""
        return self.notify.of(given) if given else self.notify.named


def read_config(path: Path) -> Config:
    """Read the file.

    Raises:
        ConfigError: it cannot be read, is no TOML, or has a key or value that cannot be used.
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
        """Read the file again if it was changed; return whether it was. One that cannot be used leaves things as they are.

        Raises:
            ConfigError: as ``read_config``, once for each change.
        """
        mark = self._look()
        if mark == self._mark:
            return False
        self._mark = mark
        self.config = read_config(self.path)
        return True

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def is_open_to_others(path: Path) -> bool:
    """Whether other users of the machine can read the file."""
    try:
        return HAS_OWNERS and bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
    except OSError:
        return False
