"""The client of a running server's HTTP API, and the search for that server."""

from __future__ import annotations

import http.client
import json
import time
import urllib.parse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from loaderwatch.core.answers import (
    Advice,
    Comparison,
    Finding,
    Fingerprint,
    Profile,
    ProfilePartName,
    RunRow,
    ServerFacts,
    Stack,
    Summary,
    WhatIf,
    Worker,
)
from loaderwatch.core.config import DataDir, load_settings
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.server_file import configured_server, own_server
from loaderwatch.core.server_trust import Away, Connection, NotProven, Server, explain, is_there, prove
from loaderwatch.core.wire import decode_json

_TIMEOUT_S = 10.0
_PACKING_S = 120.0
_READING_S = 600.0  # a large run as a whole
_LOOK_AGAIN_S = 0.25

_T = TypeVar("_T")


class ServerError(LoaderwatchError):
    """The server answered with an error: ``status`` is the HTTP status, if any, ``reason`` its text."""

    def __init__(self, text: str, status: int | None = None, reason: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason


class _Requested(msgspec.Struct, frozen=True):
    requested: bool


@dataclass(frozen=True, slots=True)
class Client(Server):
    """A server to ask. Its methods raise ServerError for an error, and OSError if no server answers.

    Each request has its own connection, on which the server has proven its identity.
    """

    def get(self, path: str, kind: type[_T]) -> _T:
        """Return an API path's answer, as a ``kind`` of ``loaderwatch.core.answers``."""
        return self._read(self._ask("GET", path), kind)

    def knows(self) -> bool:
        """Whether the server answers and still accepts this token."""
        try:
            self.runs()
        except (OSError, ServerError):
            return False
        return True

    def server(self) -> ServerFacts:
        """Return the server's facts, such as until when it runs."""
        return self.get("/server", ServerFacts)

    def stop(self, *, force: bool) -> ServerFacts:
        """Stop the server, which refuses while a run is reporting. The token must be the owner's."""
        body = msgspec.json.encode({"force": force})
        return self._read(self._ask("POST", "/server/stop", body=body), ServerFacts)

    def runs(self) -> list[RunRow]:
        """Return every run, newest first."""
        return self.get("/runs", list[RunRow])

    def findings(self, run_id: str, attempt: int | None = None, language: str = "en") -> list[Finding]:
        """Return the findings of a run's attempt (None: the newest), newest first, in "en" or "zh"."""
        query = urllib.parse.urlencode({"lang": language} | ({} if attempt is None else {"attempt": attempt}))
        return self.get(f"{_run(run_id)}/findings?{query}", list[Finding])

    def summary(self, run_id: str, attempt: int | None = None) -> Summary:
        """Return the summary of a run's attempt (None: the newest), with the verdict and its advice."""
        return self.get(f"{_run(run_id)}/summary{_of_attempt(attempt)}", Summary)

    def audit(self, run_id: str) -> list[Advice]:
        """Return the advice on a run's configuration, the worst first."""
        return self.get(f"{_run(run_id)}/audit", list[Advice])

    def what_if(self, run_id: str) -> list[WhatIf]:
        """Return the predictions for other settings of a run's loaders."""
        return self.get(f"{_run(run_id)}/what-if", list[WhatIf])

    def profile(
        self, run_id: str, of: ProfilePartName, rank: int | None = None, attempt: int | None = None
    ) -> Profile:
        """Return where the time of a part of a run's attempt (None: the newest) goes.

        ``rank``: of this rank; None: of all ranks.
        """
        wanted = {"of": of, "rank": rank, "attempt": attempt}
        query = urllib.parse.urlencode({name: value for name, value in wanted.items() if value is not None})
        return self.get(f"{_run(run_id)}/profile?{query}", Profile)

    def comparison(self, a: str, b: str) -> Comparison:
        """Return what changed from one run to another."""
        return self.get(f"/compare?{urllib.parse.urlencode({'a': a, 'b': b})}", Comparison)

    def recording(self, run_id: str, last_s: float | None) -> bytes:
        """Return the newest part of a run, or all of it (None), as the bytes of an ``.lwrec`` file."""
        which = "whole=true" if last_s is None else f"last={last_s:g}"
        return self._ask("GET", f"{_run(run_id)}/recording?{which}", timeout_s=_PACKING_S)

    def fingerprint(self, run_id: str) -> str:
        """Return the fingerprint of a run; the server reads the whole run for it."""
        answer = self._ask("GET", f"{_run(run_id)}/fingerprint", timeout_s=_READING_S)
        return self._read(answer, Fingerprint).fingerprint

    def bring(self, run_id: str, number: int, body: bytes, *, last: bool = False) -> None:
        """Send a part of a run; with ``last``, send the rest that is known. The token must be the owner's."""
        path = f"{_run(run_id)}/import?number={number}" + ("&last=true" if last else "")
        self._ask("POST", path, body=body, timeout_s=_READING_S)

    def fresh_stacks(self, run_id: str, rank: int | None, within_s: float) -> tuple[list[Stack], list[Stack]]:
        """Request new stacks of a run's processes and wait for them. The token must be the owner's.

        Args:
            rank: only this rank's stacks; None: all ranks'.
            within_s: how long to wait, in seconds.

        Returns:
            The new stacks, and old ones of processes that have not answered; none if nobody can be asked.
        """
        of_rank = "" if rank is None else f"?rank={rank}"
        path = f"{_run(run_id)}/stacks{of_rank}"
        old_stacks = {_process(stack): stack for stack in self.get(path, list[Stack])}
        living = {
            (worker.rank, worker.worker, worker.pid)
            for worker in self.get(f"{_run(run_id)}/workers{of_rank}", list[Worker])
            if worker.alive
        }
        if not self._read(self._ask("POST", path, body=b""), _Requested).requested:
            return [], []
        give_up_at = time.monotonic() + within_s
        while True:
            stacks = self.get(path, list[Stack])
            fresh = [stack for stack in stacks if stack != old_stacks.get(_process(stack))]
            if living <= {_process(stack) for stack in fresh} or time.monotonic() > give_up_at:
                return fresh, [stack for stack in stacks if stack not in fresh and _process(stack) in living]
            time.sleep(_LOOK_AGAIN_S)

    def _ask(
        self, method: str, path: str, *, body: bytes | None = None, timeout_s: float = _TIMEOUT_S
    ) -> bytes:
        try:
            with Connection(self, _TIMEOUT_S) as connection:
                answer = connection.ask(method, path, body, timeout_s=timeout_s)
        except NotProven as error:
            raise ServerError(_unproven(self.url, error)) from None
        except Away as error:
            raise ServerError(f"{self.url} {error}", error.status) from None
        except http.client.HTTPException as error:
            raise ServerError(f"{self.url} is not a loaderwatch server: {error}") from None
        except OSError:  # includes a certificate's error, which is also a ValueError
            raise
        except ValueError:
            raise ServerError(_unusable(self.url)) from None
        if answer.status != 200:
            reason = _reason(answer.body)
            raise ServerError(f"{self.url} answered {answer.status}: {reason}", answer.status, reason)
        return answer.body

    def _read(self, answer: bytes, kind: type[_T]) -> _T:
        try:
            return decode_json(answer, kind)
        except msgspec.ValidationError as error:
            raise ServerError(
                f"{self.url} answered in a way that this version does not understand ({error}): the server is"
                " of another version of loaderwatch; start it anew (loaderwatch stop, loaderwatch serve)"
            ) from None
        except msgspec.DecodeError:
            raise ServerError(f"{self.url} is not a loaderwatch server: its answer is not JSON") from None


def _process(stack: Stack) -> tuple[int, int, int]:
    return stack.rank, stack.worker, stack.pid


def _run(run_id: str) -> str:
    return f"/runs/{urllib.parse.quote(run_id, safe='')}"


def _of_attempt(attempt: int | None) -> str:
    return "" if attempt is None else f"?attempt={attempt}"


def find_server(data_dir: Path | None, who: Literal["viewer", "owner"] = "viewer") -> Client | None:
    """Return LOADERWATCH_SERVER's server, or the one that uses this data directory; None without any.

    A data directory on the command line takes precedence over LOADERWATCH_SERVER. ``who`` chooses the token
    for a server of this machine. Another server gets LOADERWATCH_PAGE_TOKEN, else LOADERWATCH_TOKEN.

    Raises:
        ServerError: the server of LOADERWATCH_SERVER does not answer, or does not accept LOADERWATCH_TOKEN.
    """
    settings = load_settings()
    if data_dir is None and settings.server is not None:
        token = settings.page_token or settings.token
        return _configured(_client(configured_server(settings.server, token, settings, who)))
    return find_own_server(data_dir or settings.data_dir, who)


def find_own_server(data_dir: Path, who: Literal["viewer", "owner"]) -> Client | None:
    """Return the server that uses a data directory, with the token of ``who``; None if there is none."""
    server = own_server(DataDir(data_dir), who)
    return _client(server) if server is not None and is_there(server, _TIMEOUT_S) else None


def _client(server: Server) -> Client:
    return Client(**asdict(server))


def _configured(client: Client) -> Client:
    if client.token is None:
        return client
    try:
        prove(client, _TIMEOUT_S)
    except NotProven as error:
        raise ServerError(
            f"{_unproven(client.url, error)}; set LOADERWATCH_TOKEN to one of that server's tokens"
        ) from None
    except Away as error:
        raise ServerError(f"{client.url} {error}") from None
    except http.client.HTTPException as error:
        raise ServerError(f"{client.url} is not a loaderwatch server: {error}") from None
    except OSError as error:
        raise ServerError(
            f"{client.url} cannot be reached ({explain(error)}); check LOADERWATCH_SERVER"
        ) from None
    except ValueError:
        raise ServerError(_unusable(client.url)) from None
    return client


def _unproven(url: str, error: NotProven) -> str:
    return f"{url} has not proven that it is your loaderwatch server ({error}), so it was sent no token"


def _unusable(url: str) -> str:
    """Return that a request cannot be made, without the error's own text, which may contain the token."""
    return f"{url} cannot be asked: its address or its token cannot be put into a request"


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode("utf-8", "replace")
