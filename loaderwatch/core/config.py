"""Settings from the LOADERWATCH_* environment variables, and the paths of our files."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from loaderwatch.core.errors import ConfigError
from loaderwatch.core.files import check_own, temporary_folder
from loaderwatch.core.system import HAS_OWNERS, SHM, own_user

DEFAULT_PORT: Final = 8790
CACHED_BATCHES: Final = "LOADERWATCH_CACHED_BATCHES"
_MOST_DIGITS: Final = 9
_NAMES: Final = 10
"""How many names are tried for a substitute directory: other users may have taken some before."""
_BETWEEN_ADDRESSES: Final = re.compile(r"[\s,;]+(?=[a-z0-9]+://)", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"[a-z0-9]+://\S", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DataDir:
    """The paths below a data directory, which the streamer of a job and the server of a machine share."""

    data_dir: Path  # LOADERWATCH_DIR

    def check_own(self) -> None:
        """Refuse a data directory in which another user could have put, or could change, what we read and run.

        Raises:
            NotPrivate: it, or a folder in it, belongs to somebody else or is writable by others.
            OSError: it cannot be looked at.
        """
        check_own(self.data_dir, sticky_too=True)
        for folder in (self.runs_dir, self.outbox_dir, self.logs_dir, self.notify_dir):
            check_own(folder)

    @property
    def outbox_dir(self) -> Path:
        """Envelopes that wait for the server, a folder per run."""
        return self.data_dir / "outbox"

    @property
    def runs_dir(self) -> Path:
        """The local server's store, a file per run."""
        return self.data_dir / "runs"

    @property
    def logs_dir(self) -> Path:
        """The logs of streamers and of the local server."""
        return self.data_dir / "logs"

    @property
    def token_path(self) -> Path:
        """The local server's tokens (JSON, mode 0600)."""
        return self.data_dir / "token.json"

    @property
    def redact_key_path(self) -> Path:
        """The key for the short forms of redacted paths (mode 0600, because who has it can check a guess at a path)."""
        return self.data_dir / "redact.key"

    @property
    def server_id_path(self) -> Path:
        """Who the server of this directory is among those of a database."""
        return self.data_dir / "server_id"

    @property
    def server_path(self) -> Path:
        """Where the running local server is (JSON, mode 0600; see ``server_file``)."""
        return self.data_dir / "server.json"

    @property
    def rings_dir(self) -> Path:
        """Shared memory, a folder per run.

        /dev/shm even when LOADERWATCH_DIR is set: a ring that is mapped from a network file system could stall the
        training process on write-back. The folder's name keeps data directories and users apart.
        """
        if HAS_OWNERS and os.access(SHM, os.W_OK):
            mark = hashlib.sha256(str(self.data_dir).encode()).hexdigest()[:8]
            return SHM / f"loaderwatch-{own_user()}-{mark}"
        return self.data_dir / "rings"

    @property
    def remembered_path(self) -> Path:
        """The options of the running local server (JSON, mode 0600, because addresses to notify hold secrets)."""
        return self.data_dir / "serve.json"

    @property
    def tuned_path(self) -> Path:
        """The settings that ``loaderwatch tune --apply-env`` found, for the next runs (JSON, by script)."""
        return self.data_dir / "tuned.json"

    @property
    def config_path(self) -> Path:
        """The settings that a person writes for this directory's server (TOML)."""
        return self.data_dir / "config.toml"

    @property
    def notify_dir(self) -> Path:
        """The addresses that runs gave (JSON, mode 0600, a file per run), for this directory's own server only."""
        return self.data_dir / "notify"

    @property
    def lock_path(self) -> Path:
        """The lock file that the local server holds while it runs."""
        return self.data_dir / "server.lock"


@dataclass(frozen=True, slots=True)
class Settings(DataDir):
    """The settings that the environment variables give."""

    server: str | None  # LOADERWATCH_SERVER
    token: str | None  # LOADERWATCH_TOKEN
    run: str | None  # LOADERWATCH_RUN
    disabled: bool  # LOADERWATCH_DISABLE
    redact: bool = False  # LOADERWATCH_REDACT
    notify: tuple[str, ...] = ()  # LOADERWATCH_NOTIFY: secrets
    page_token: str | None = None  # LOADERWATCH_PAGE_TOKEN, for what reads; else the token
    agent_token: str | None = None  # LOADERWATCH_AGENT_TOKEN: what a server lets agents send with, too
    cached_batches: int = 0  # LOADERWATCH_CACHED_BATCHES; 0: loaders are read
    substitute: bool = False  # data_dir takes the place of the user's own, which cannot be written


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the LOADERWATCH_* variables.

    Raises:
        ConfigError: LOADERWATCH_SERVER is not an http(s) URL, LOADERWATCH_NOTIFY has no addresses' form, or
            LOADERWATCH_CACHED_BATCHES is no number of batches, a token cannot be put into a request, or
            LOADERWATCH_DIR cannot be found from here.
    """
    env = os.environ if environ is None else environ
    server = env.get("LOADERWATCH_SERVER") or None
    if server is not None and not is_server_url(server):
        raise ConfigError(
            f"LOADERWATCH_SERVER is {server!r}; use a URL such as http://127.0.0.1:{DEFAULT_PORT}"
        )
    cached = env.get(CACHED_BATCHES, "") or "0"
    if not cached.isdecimal() or len(cached) > _MOST_DIGITS:
        raise ConfigError(f"{CACHED_BATCHES} is {cached[:40]!r}; use a number of batches, such as 50")
    for name in ("LOADERWATCH_TOKEN", "LOADERWATCH_PAGE_TOKEN", "LOADERWATCH_AGENT_TOKEN"):
        check_token(name, env.get(name) or None)
    directory = env.get("LOADERWATCH_DIR")
    data_dir = _given_dir(directory) if directory else _default_dir()
    substitute = not directory and not _may_write(data_dir)
    return Settings(
        server=server.rstrip("/") if server else None,
        token=env.get("LOADERWATCH_TOKEN") or None,
        run=env.get("LOADERWATCH_RUN") or None,
        data_dir=substitute_dir() if substitute else data_dir,
        disabled=env.get("LOADERWATCH_DISABLE", "") not in ("", "0"),
        redact=env.get("LOADERWATCH_REDACT", "") not in ("", "0"),
        notify=split_addresses(env.get("LOADERWATCH_NOTIFY", ""), "LOADERWATCH_NOTIFY"),
        page_token=env.get("LOADERWATCH_PAGE_TOKEN") or None,
        agent_token=env.get("LOADERWATCH_AGENT_TOKEN") or None,
        cached_batches=int(cached),
        substitute=substitute,
    )


def _given_dir(directory: str) -> Path:
    try:
        return Path(directory).expanduser().absolute()
    except (OSError, RuntimeError) as error:  # the working folder was removed, or there is no such user
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"LOADERWATCH_DIR is {directory!r}: {why}; use an absolute path") from None


def check_token(name: str, token: str | None) -> str | None:
    """Return a token that a request can carry, which are visible characters of Latin-1 and spaces between them.

    Raises:
        ConfigError: the token of ``name`` has others, or begins or ends with a space.
    """
    if token is None or (token.isprintable() and token == token.strip() and max(token, default="") <= "\xff"):
        return token
    raise ConfigError(
        f"{name} has a character that cannot be sent in a request; use letters and digits, such as what `openssl rand -hex 24` prints"
    )


def split_addresses(text: str, name: str) -> tuple[str, ...]:
    """Return the Apprise addresses of a text, which stand apart by spaces, commas or semicolons, as Apprise itself reads them.

    Whether Apprise knows an address is asked where messages are sent: to import it takes a quarter of a second.

    Raises:
        ConfigError: a part of ``name`` is not of the form ``scheme://…``. What it is instead is not said: it may be a secret.
    """
    text = text.strip(" \t\r\n,;")
    addresses = tuple(_BETWEEN_ADDRESSES.split(text)) if text else ()
    for number, address in enumerate(addresses, 1):
        if not _ADDRESS.match(address):
            which = name if len(addresses) == 1 else f"address {number} of {name}"
            raise ConfigError(
                f"{which} has no scheme; use an Apprise address such as json://host/path or slack://…"
                " (https://github.com/caronc/apprise/wiki lists them)"
            )
    return addresses


def is_server_url(text: str) -> bool:
    """Whether the text is an http(s) URL with a host and a valid port."""
    try:
        parts = urllib.parse.urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port above 65535 or no number
        return False


def is_loopback(host: str) -> bool:
    """Whether an address leads to this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _default_dir() -> Path:
    try:
        from platformdirs import (
            user_data_path,
        )  # not at import: costs milliseconds that most processes do not need
    except ImportError:  # not installed: where it leads on Linux
        data_home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
        return Path(data_home).expanduser() / "loaderwatch"
    return user_data_path("loaderwatch", appauthor=False)


def substitute_dir() -> Path:
    """Return the data directory of a user whose own cannot be written: in the folder for temporary files, the first name that no other user took."""
    folder = temporary_folder()
    names = (
        f"loaderwatch-{own_user()}{'' if number == 1 else f'-{number}'}" for number in range(1, _NAMES + 1)
    )
    return next(
        (folder / name for name in names if _is_free(folder / name)), folder / f"loaderwatch-{own_user()}"
    )


def _is_free(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return True
    return stat.S_ISDIR(found.st_mode) and (not HAS_OWNERS or found.st_uid == own_user())


def _may_write(folder: Path) -> bool:
    """Whether files can be made in a folder, or the folder itself where it is missing. A home may be read-only, or not there."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK)
