"""What the demo asks its server."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit


class PageError(Exception):
    """The server did not answer as expected."""


@dataclass(frozen=True, slots=True)
class Page:
    """Where the demo's server is, and the token that lets a viewer in."""

    url: str
    viewer_url: str

    @classmethod
    def read(cls, server_path: Path) -> Page | None:
        """From the file the server writes once it listens; None before."""
        try:
            facts = json.loads(server_path.read_bytes())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return cls(url=facts["url"].rstrip("/"), viewer_url=facts["viewer_url"])

    def ask(self, path: str) -> Any:
        """The JSON answer to ``GET path``.

        Raises:
            PageError: no answer, or an error.
        """
        request = urllib.request.Request(self.url + path)
        for token in parse_qs(urlsplit(self.viewer_url).query).get("token", ()):
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except (urllib.error.URLError, http.client.HTTPException, OSError, json.JSONDecodeError) as error:
            raise PageError(f"{self.url}{path}: {error}") from error

    def is_ready(self) -> bool:
        """Whether the server takes requests."""
        try:
            self.ask("/readyz")
        except PageError:
            return False
        return True
