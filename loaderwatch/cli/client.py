"""Asking a running server, when there is one."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from loaderwatch.core.config import load_settings
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.trust import (
    IDENTITY_PATH,
    NotProven,
    check_proof,
    client_context,
    explain,
    new_challenge,
)

_TIMEOUT_S = 10.0
_PACKING_S = 120.0


class ServerError(LoaderwatchError):
    """The server answered with an error; ``status`` is its HTTP status, if it was one, and ``reason`` what it said."""

    def __init__(self, text: str, status: int | None = None, reason: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Client:
    """A server and the token for it."""

    url: str
    token: str | None
    certificate: str | None = None  # of our own server, when it speaks TLS

    def get(self, path: str) -> Any:
        """The JSON at an API path.

        Raises:
            ServerError: the answer is an error.
            OSError: nobody answers.
        """
        try:
            return json.loads(self._fetch(path, _TIMEOUT_S))
        except ValueError:
            raise ServerError(f"{self.url} is not a loaderwatch server: its answer is not JSON") from None

    def have_proven(self) -> None:
        """Make sure that the server knows the token before it is sent.

        Raises:
            NotProven, ServerError: it does not, or does not say.
            OSError: nobody answers.
        """
        if self.token:
            challenge = new_challenge()
            path = f"{IDENTITY_PATH}?challenge={challenge}"
            check_proof(
                self.token, challenge, Client(self.url, None, self.certificate)._open(path, _TIMEOUT_S)
            )

    def server(self) -> dict[str, Any]:
        """Which server this is, and until when it stays."""
        found: dict[str, Any] = self.get("/server")
        return found

    def stop(self, *, force: bool) -> dict[str, Any]:
        """Have the server end; the token must be its owner's.

        Raises:
            ServerError: it refuses, such as while a run is reporting.
            OSError: nobody answers.
        """
        body = json.dumps({"force": force}).encode()
        ended: dict[str, Any] = json.loads(self._open("/api/v1/server/stop", _TIMEOUT_S, body))
        return ended

    def _fetch(self, path: str, timeout_s: float) -> bytes:
        return self._open(f"/api/v1{path}", timeout_s)

    def _open(self, path: str, timeout_s: float, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(self.url + path, body)
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), self._https())
        try:
            with opener.open(request, timeout=timeout_s) as answer:
                answered: bytes = answer.read()
                return answered
        except urllib.error.HTTPError as error:
            with error:
                reason = _reason(error.read())
                text = f"{self.url} answered {error.code}: {reason}"
                raise ServerError(text, error.code, reason) from None
        except http.client.HTTPException as error:
            raise ServerError(f"{self.url} is not a loaderwatch server: {error}") from None

    def knows(self) -> bool:
        """Whether the server still lets this token in; one that is gone does not."""
        try:
            self.get("/runs")
        except (OSError, ServerError):
            return False
        return True

    def _https(self) -> urllib.request.HTTPSHandler:
        return urllib.request.HTTPSHandler(
            context=client_context(self.certificate) if self.url.startswith("https:") else None
        )

    def runs(self) -> list[dict[str, Any]]:
        """Every run, newest first."""
        found: list[dict[str, Any]] = self.get("/runs")
        return found

    def findings(self, run_id: str, attempt: int | None = None) -> list[dict[str, Any]]:
        """The findings of a run's attempt (None: the newest), newest first."""
        found: list[dict[str, Any]] = self.get(
            f"/runs/{quote(run_id, safe='')}/findings{_of_attempt(attempt)}"
        )
        return found

    def summary(self, run_id: str, attempt: int | None = None) -> dict[str, Any]:
        """How a run's attempt (None: the newest) is or was, with the verdict and its advice."""
        found: dict[str, Any] = self.get(f"/runs/{quote(run_id, safe='')}/summary{_of_attempt(attempt)}")
        return found

    def recording(self, run_id: str, last_s: float) -> bytes:
        """The newest part of a run as the bytes of an ``.lwrec`` file."""
        return self._fetch(f"/runs/{quote(run_id, safe='')}/recording?last={last_s:g}", _PACKING_S)


def _of_attempt(attempt: int | None) -> str:
    return "" if attempt is None else f"?attempt={attempt}"


def find_server(data_dir: Path | None) -> Client | None:
    """The server in charge: LOADERWATCH_SERVER, or the one that has this data directory open; None without one.

    A data directory named on the command line means that one, whatever LOADERWATCH_SERVER says.

    Raises:
        ServerError: the server that LOADERWATCH_SERVER names does not answer, or does not know LOADERWATCH_TOKEN.
    """
    settings = load_settings()
    if data_dir is None and settings.server is not None:
        return _configured(Client(settings.server, settings.token))
    return find_own_server(data_dir or settings.data_dir, "viewer")


def find_own_server(directory: Path, who: str) -> Client | None:
    """The server that has a data directory open, asked with the token of ``who``; None without one."""
    try:
        where = json.loads((directory / "server.json").read_text())
        tokens = json.loads((directory / "token.json").read_text())
        client = Client(str(where["url"]), str(tokens[who]), where.get("certificate"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    try:
        client.have_proven()
    except (
        OSError,
        NotProven,
        ServerError,
    ):  # it was killed and left its file; by now another may listen there
        return None
    return client


def _configured(client: Client) -> Client:
    try:
        client.have_proven()
    except NotProven as error:
        raise ServerError(
            f"{client.url} has not proven that it is your loaderwatch server ({error}), so it was sent no token; set"
            " LOADERWATCH_TOKEN to one of that server's tokens"
        ) from None
    except OSError as error:
        raise ServerError(
            f"{client.url} cannot be reached ({_why(error)}); check LOADERWATCH_SERVER"
        ) from None
    return client


def _why(error: OSError) -> str:
    inner = error.reason if isinstance(error, urllib.error.URLError) else error
    return explain(inner) if isinstance(inner, OSError) else str(inner)


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode("utf-8", "replace")
