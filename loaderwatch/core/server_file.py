"""The files ``server.json`` and ``token.json``, by which programs of this machine find a data directory's server."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from loaderwatch.core.files import write_atomically
from loaderwatch.core.wire import decode_json

_File = TypeVar("_File")


class ServerFile(msgspec.Struct, frozen=True):
    """``server.json``: where the running server is. It is removed when the server ends, and stays when it is killed."""

    url: str
    pid: int
    viewer_url: str | None = None
    certificate: str | None = None  # PEM, when it speaks TLS

    @property
    def page_url(self) -> str:
        """The address that a person on this machine opens."""
        return self.viewer_url or self.url

    def write(self, path: Path) -> None:
        """Replace the file.

        Raises:
            OSError: the file cannot be written.
        """
        write_atomically(path, msgspec.json.encode(self))


class TokenFile(msgspec.Struct, frozen=True):
    """``token.json``: the server's tokens, for the programs of its own user."""

    agent: str | None = None
    viewer: str | None = None
    owner: str | None = None


def read_server_file(path: Path) -> ServerFile | None:
    """Read ``server.json`` at ``path``; return None when it is missing or damaged."""
    return _read(path, ServerFile)


def read_token_file(path: Path) -> TokenFile:
    """Read ``token.json`` at ``path``; when it is missing or damaged, the result has no tokens."""
    return _read(path, TokenFile) or TokenFile()


def _read(path: Path, kind: type[_File]) -> _File | None:
    try:
        return decode_json(path.read_bytes(), kind)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
        return None
