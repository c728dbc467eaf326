"""The page's files, and plotly.min.js from the installed plotly package."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import logging
import mimetypes
import threading
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from loaderwatch.core.errors import LoaderwatchError

_log = logging.getLogger(__name__)

PLOTLY_PATH: Final = "plotly.min.js"
_SUFFIXES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
}
_COMPRESSIBLE: Final = frozenset({".html", ".js", ".css", ".svg", ".json"})
_LONGEST_NAME: Final = 200
_IMMUTABLE: Final = "private, max-age=31536000, immutable"


class StaticError(LoaderwatchError):
    """The page's files or Plotly cannot be found."""


@dataclass(slots=True)
class _File:
    mtime_ns: int
    body: bytes
    etag: str
    media_type: str
    packed: bytes | None  # gzip, when it is ready and worth it


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


def find_plotly() -> Path:
    """Return the path of plotly.min.js in the installed plotly package, without importing the package.

    Raises:
        StaticError: the package is not installed or has no such file.
    """
    spec = importlib.util.find_spec("plotly")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        candidate = Path(folder) / "package_data" / PLOTLY_PATH
        if candidate.is_file():
            return candidate
    raise StaticError("plotly.min.js was not found; pip install 'plotly>=6.0'")


class StaticFiles:
    """The page's files in memory with their ETag and gzip; a file is read again when it changes on disk."""

    def __init__(self, web: Path, plotly: Path) -> None:
        self._web = web.resolve()
        self._plotly = plotly
        self._files: dict[str, _File] = {}

    def plotly(self) -> bytes:
        """Return the text of plotly.min.js.

        Raises:
            StaticError: it cannot be read.
        """
        try:
            return self._plotly.read_bytes()
        except OSError as error:
            raise StaticError(f"cannot read {self._plotly}: {error.strerror}") from error

    def warm(self) -> None:
        """Pack plotly.min.js in the background: 5 MB take a quarter of a second that the first page need not wait."""
        threading.Thread(target=self._warm, name="loaderwatch-warm", daemon=True).start()

    def _warm(self) -> None:
        try:
            file = self._read(PLOTLY_PATH, self._plotly)
        except OSError as error:
            _log.warning("cannot read %s: %s", self._plotly, error)
            return
        file.packed = gzip.compress(file.body, 6)

    def response(self, name: str, request: Request) -> Response | None:
        """Answer with the file at this URL path (no leading slash; "" is the page); None if there is none."""
        name = name or "index.html"
        path = self._path(name)
        if path is None:
            return None
        try:
            file = self._read(name, path)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        version = request.query_params.get("v")
        headers = {
            "etag": file.etag,
            "cache-control": _IMMUTABLE if version and version == file.etag.strip('"') else "no-cache",
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
        if name == PLOTLY_PATH:
            return self._plotly
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

    def _read(self, name: str, path: Path) -> _File:
        mtime_ns = path.stat().st_mtime_ns
        known = self._files.get(name)
        if known is not None and known.mtime_ns == mtime_ns:
            return known
        body = path.read_bytes()
        if name == "index.html":
            body = self._with_version(body)
        suffix = path.suffix.lower()
        file = _File(
            mtime_ns,
            body,
            f'"{hashlib.sha256(body).hexdigest()[:20]}"',
            _SUFFIXES.get(suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream",
            gzip.compress(body, 6) if suffix in _COMPRESSIBLE and len(body) < 2**20 else None,
        )
        self._files[name] = file
        return file

    def _with_version(self, page: bytes) -> bytes:
        """Put the hash of plotly.min.js into its address, so that a browser may keep it for good and still gets an upgrade."""
        version = self._read(PLOTLY_PATH, self._plotly).etag.strip('"').encode()
        return page.replace(b'"/plotly.min.js"', b'"/plotly.min.js?v=' + version + b'"')
