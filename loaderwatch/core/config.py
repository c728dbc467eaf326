"""The settings that most parts need, from environment variables, and the paths of our files."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from loaderwatch.core import environment_variables as variables
from loaderwatch.core.files import check_own, temporary_folder
from loaderwatch.core.system import HAS_OWNERS, SHM, own_user

_NAMES: Final = 10
"""How many names are tried for a substitute directory, as other users may have taken some."""


@dataclass(frozen=True, slots=True)
class DataDir:
    """The paths in a data directory, which the streamer of a job and the server of a machine share."""

    data_dir: Path  # LOADERWATCH_DIR

    def check_own(self) -> None:
        """Refuse a data directory where another user may write files that we read or run.

        Raises:
            NotPrivate: the directory, or a folder in it, belongs to somebody else or is writable by others.
            OSError: the directory cannot be examined.
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
        """The key for short forms of redacted paths. Mode 0600: the key allows to check guesses at a path."""
        return self.data_dir / "redact.key"

    @property
    def server_id_path(self) -> Path:
        """The identity of this directory's server among the servers of a database."""
        return self.data_dir / "server_id"

    @property
    def server_path(self) -> Path:
        """The address of the running local server (JSON, mode 0600; see ``server_file``)."""
        return self.data_dir / "server.json"

    @property
    def rings_dir(self) -> Path:
        """Shared memory, a folder per run.

        This is /dev/shm even when LOADERWATCH_DIR is set: a ring on a network file system could stall the
        training process on write-back. The folder's name differs between data directories and between users.
        """
        if HAS_OWNERS and os.access(SHM, os.W_OK):
            mark = hashlib.sha256(str(self.data_dir).encode()).hexdigest()[:8]
            return SHM / f"loaderwatch-{own_user()}-{mark}"
        return self.data_dir / "rings"

    @property
    def remembered_path(self) -> Path:
        """The options of the running local server (JSON, mode 0600: notification addresses are secret)."""
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
        """The addresses that runs gave, for this directory's own server (JSON, mode 0600, a file per run)."""
        return self.data_dir / "notify"

    @property
    def lock_path(self) -> Path:
        """The lock file that the local server holds while it runs."""
        return self.data_dir / "server.lock"


@dataclass(frozen=True, slots=True)
class Settings(DataDir):
    """The settings that most parts need. A field has its environment variable's name."""

    server: str | None
    token: str | None
    run: str | None
    disabled: bool
    redact: bool = False
    notify: tuple[str, ...] = ()  # secret
    page_token: str | None = None  # for clients that only read; if missing, they use ``token``
    agent_token: str | None = None  # a server accepts it from agents, too
    cached_batches: int = 0  # 0: loaders are read
    outbox_bytes: int = variables.OUTBOX_BYTES.default
    substitute: bool = False  # data_dir replaces the user's own, which is not writable


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the environment variables that most parts need.

    Raises:
        ConfigError: a variable has a value that cannot be used.
    """
    data_dir, substitute = find_data_dir(environ)
    return Settings(
        server=variables.SERVER.read(environ),
        token=variables.TOKEN.read(environ),
        run=variables.RUN.read(environ),
        data_dir=data_dir,
        disabled=variables.DISABLE.read(environ),
        redact=variables.REDACT.read(environ),
        notify=variables.NOTIFY.read(environ),
        page_token=variables.PAGE_TOKEN.read(environ),
        agent_token=variables.AGENT_TOKEN.read(environ),
        cached_batches=variables.CACHED_BATCHES.read(environ),
        outbox_bytes=variables.OUTBOX_BYTES.read(environ),
        substitute=substitute,
    )


def find_data_dir(environ: Mapping[str, str] | None = None) -> tuple[Path, bool]:
    """Return the data directory, and whether it replaces the user's own, which is not writable.

    Raises:
        ConfigError: LOADERWATCH_DIR cannot be used.
    """
    configured = variables.DIR.read(environ)
    if configured is not None:
        return configured, False
    own = _default_dir()
    return (own, False) if _may_write(own) else (substitute_dir(), True)


def is_loopback(host: str) -> bool:
    """Whether an address leads to this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _default_dir() -> Path:
    try:
        # Imported here, because it costs milliseconds that most processes do not need.
        from platformdirs import user_data_path
    except ImportError:  # not installed: use the path that it returns on Linux
        data_home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
        return Path(data_home).expanduser() / "loaderwatch"
    return user_data_path("loaderwatch", appauthor=False)


def substitute_dir() -> Path:
    """Return the substitute data directory: the first name for temporary files that no other user took."""
    folder = temporary_folder()
    names = (
        f"loaderwatch-{own_user()}{'' if number == 1 else f'-{number}'}" for number in range(1, _NAMES + 1)
    )
    return next(
        (folder / name for name in names if _is_free(folder / name)), folder / f"loaderwatch-{own_user()}"
    )


def _is_free(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return True
    return stat.S_ISDIR(status.st_mode) and (not HAS_OWNERS or status.st_uid == own_user())


def _may_write(folder: Path) -> bool:
    """Whether a folder, or its nearest existing parent, is writable. A home may be read-only or missing."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK)
