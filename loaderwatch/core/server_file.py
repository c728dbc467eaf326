"""The files ``server.json`` and ``token.json``, by which programs of this machine find a data directory's server."""

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
    """``server.json``: where the running server is. It is removed when the server ends, and stays when it is killed."""

    url: str
    pid: int
    viewer_url: str | None = None
    certificate: str | None = None  # PEM, when it speaks TLS
    key: str | None = None  # new with each start: other servers have the same tokens, and not this key

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
    """Read ``server.json`` at ``path``; return None when it is missing, damaged or another user's."""
    return _read(path, ServerFile)


def read_token_file(path: Path) -> TokenFile:
    """Read ``token.json`` at ``path``; when it is missing, damaged or another user's, the result has no tokens."""
    return _read(path, TokenFile) or TokenFile()


def own_server(places: DataDir, who: Literal["agent", "viewer", "owner"]) -> Server | None:
    """Return the server that the files of a data directory name, with the token of ``who``; None if they name none.

    A server that was killed leaves its file, and by now another process may listen at that address.
    """
    file = read_server_file(places.server_path)
    if file is None:
        return None
    token: str | None = getattr(read_token_file(places.token_path), who)
    return Server(file.url.rstrip("/"), token, file.certificate, file.key, file.page_url)


def configured_server(
    url: str, token: str | None, places: DataDir, who: Literal["agent", "viewer", "owner"]
) -> Server:
    """Return the server at an address that a person gave. What was not given comes from the files if they name that address."""
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
