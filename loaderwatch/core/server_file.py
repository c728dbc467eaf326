"""The files ``server.json`` and ``token.json``, with which local programs find a data directory's server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from loaderwatch.core.config import DataDir
from loaderwatch.core.files import read_own, write_atomically
from loaderwatch.core.server_trust import Server
from loaderwatch.core.wire import UNDECODABLE, decode_json

_File = TypeVar("_File")


class ServerFile(msgspec.Struct, frozen=True):
    """``server.json``: the running server's address. The server removes it at its end, unless killed."""

    url: str
    pid: int
    viewer_url: str | None = None
    certificate: str | None = None  # PEM, if the server uses TLS
    key: str | None = None  # new at each start: other servers may have the same tokens, but not this key

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
    """``token.json``: the server's tokens, for its own user's programs."""

    agent: str | None = None
    viewer: str | None = None
    owner: str | None = None


def read_server_file(path: Path) -> ServerFile | None:
    """Read ``server.json`` at ``path``; return None if it is missing, damaged or another user's."""
    return _read(path, ServerFile)


def read_token_file(path: Path) -> TokenFile:
    """Read ``token.json`` at ``path``; if it is missing, damaged or another user's, return no tokens."""
    return _read(path, TokenFile) or TokenFile()


def own_server(places: DataDir, who: Literal["agent", "viewer", "owner"]) -> Server | None:
    """Return the server in a data directory's files, with the token of ``who``; None if they name none.

    A killed server leaves its file, and another process may listen at that address by now.
    """
    file = read_server_file(places.server_path)
    if file is None:
        return None
    token: str | None = getattr(read_token_file(places.token_path), who)
    return Server(file.url.rstrip("/"), token, file.certificate, file.key, file.page_url)


def configured_server(
    url: str, token: str | None, places: DataDir, who: Literal["agent", "viewer", "owner"]
) -> Server:
    """Return the server at an address from a person; missing values come from the files, if they name it."""
    own = own_server(places, who)
    if own is None or own.url != url:
        return Server(url, token, page_url=url)
    if token is None:
        return replace(own, page_url=url)
    return Server(url, token, own.certificate, page_url=url)


def _read(path: Path, kind: type[_File]) -> _File | None:
    try:
        return decode_json(read_own(path), kind)
    except (OSError, *UNDECODABLE):
        return None
