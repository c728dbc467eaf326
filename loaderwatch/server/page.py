"""The page's files, in memory and compressed.

The page's files have addresses under ``/v/HASH/``, with a hash over all files. Browsers keep those
permanently and never ask again; an upgrade changes the addresses. Modules and style sheets import each other
by relative addresses. So only ``index.html``, which is requested at each visit, must name the hash.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import mimetypes
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from loaderwatch.core.errors import LoaderwatchError

_log = logging.getLogger(__name__)

_PAGE: Final = "index.html"
_VERSIONED: Final = "v/"
_SUFFIXES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".ftl": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
}
_COMPRESSIBLE: Final = frozenset({".html", ".js", ".css", ".ftl", ".svg", ".json", ".txt"})
_LONGEST_NAME: Final = 200
_IMMUTABLE: Final = "private, max-age=31536000, immutable"


class StaticError(LoaderwatchError):
    """The page's files were not found."""


@dataclass(slots=True)
class _File:
    mtime_ns: int
    body: bytes
    etag: str
    media_type: str
    packed: bytes | None  # gzip, if worthwhile


def find_web() -> Path:
    """Return the page's folder: inside the package in a wheel, beside it in an editable install.

    Raises:
        StaticError: the page is in neither.
    """
    package = Path(__file__).resolve().parents[1]
    for candidate in (package / "web", package.parent / "web"):
        if (candidate / "index.html").is_file():
            return candidate
    raise StaticError(
        f"the page is missing: no web/index.html in {package} or beside it; install loaderwatch again"
    )


class StaticFiles:
    """The page's files with ETag and gzip; a file is read again after a change on disk."""

    def __init__(self, web: Path) -> None:
        self._web = web.resolve()
        self._files: dict[Path, _File] = {}
        self._seen: tuple[tuple[str, int, int], ...] = ()
        self._version = ""
        self._page: tuple[str, _File] | None = None  # with the version that it names

    def warm(self) -> None:
        """Compress every file in the background, so that the first page does not wait for it."""
        threading.Thread(target=self._warm, name="loaderwatch-warm", daemon=True).start()

    def _warm(self) -> None:
        try:
            for path, _, _ in self._listing():
                self._read(self._web / path)
        except OSError as error:
            _log.warning("cannot read the page: %s", error)

    def response(self, name: str, request: Request) -> Response | None:
        """Answer with the file at this URL path (no leading slash; "" is the page); None if missing."""
        asked, name = _parted(name)
        path = self._path(name or _PAGE)
        is_page = path == self._web / _PAGE
        if path is None or (is_page and asked is not None):
            return None
        try:
            version = self._current()
            file = self._versioned(version) if is_page else self._read(path)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        headers = {
            "etag": file.etag,
            # A page from before an upgrade asks with another hash and must not keep what it gets.
            "cache-control": _IMMUTABLE if asked == version else "no-cache",
            "vary": "accept-encoding",
        }
        if file.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        body = file.body
        if file.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            body = file.packed
            headers["content-encoding"] = "gzip"
        return Response(body, headers=headers, media_type=file.media_type)

    def _path(self, name: str) -> Path | None:
        parts = PurePosixPath(name).parts
        if (
            len(name) > _LONGEST_NAME
            or "\\" in name
            or "\0" in name
            or any(part.startswith(".") or part == "/" for part in parts)
        ):
            return None
        path = (self._web / name).resolve()
        return path if path.is_relative_to(self._web) else None

    def _read(self, path: Path) -> _File:
        mtime_ns = path.stat().st_mtime_ns
        known = self._files.get(path)
        if known is not None and known.mtime_ns == mtime_ns:
            return known
        file = _file(path, path.read_bytes(), mtime_ns)
        self._files[path] = file
        return file

    def _versioned(self, version: str) -> _File:
        """The page, with the version in the addresses of its other files."""
        if self._page is None or self._page[0] != version:
            path = self._web / _PAGE
            body = path.read_bytes().replace(b'="/', f'="/{_VERSIONED}{version}/'.encode())
            self._page = version, _file(path, body, path.stat().st_mtime_ns)
        return self._page[1]

    def _current(self) -> str:
        """The hash of all files, recomputed only after a change."""
        seen = tuple(sorted(self._listing()))
        if seen != self._seen:
            digest = hashlib.sha256()
            for name, _, _ in seen:
                digest.update(
                    hashlib.sha256(name.encode() + b"\0" + (self._web / name).read_bytes()).digest()
                )
            self._version, self._seen = digest.hexdigest()[:16], seen
        return self._version

    def _listing(self) -> Iterator[tuple[str, int, int]]:
        """Name, modification time and size of each file; names are relative to the page's folder."""
        folders = [self._web]
        while folders:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir():
                        folders.append(Path(entry.path))
                    else:
                        about = entry.stat()
                        yield os.path.relpath(entry.path, self._web), about.st_mtime_ns, about.st_size


def _parted(name: str) -> tuple[str | None, str]:
    """Split a URL path into the requested version, if any, and the file's name."""
    if not name.startswith(_VERSIONED):
        return None, name
    version, _, rest = name.removeprefix(_VERSIONED).partition("/")
    return version, rest


def _file(path: Path, body: bytes, mtime_ns: int) -> _File:
    suffix = path.suffix.lower()
    return _File(
        mtime_ns,
        body,
        f'"{hashlib.sha256(body).hexdigest()[:20]}"',
        _SUFFIXES.get(suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream",
        gzip.compress(body, 9) if suffix in _COMPRESSIBLE else None,
    )
