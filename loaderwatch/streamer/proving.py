"""A server proves on the very connection that then carries the data that it is the user's own."""

from __future__ import annotations

import http.client
from typing import Final

from loaderwatch.core.trust import IDENTITY_PATH, NotProven, check_proof, new_challenge

MAX_PROOF_BYTES: Final = 65536


class Away(Exception):
    """Whoever answers there cannot say now."""

    def __init__(self, status: int, retry_after: str | None) -> None:
        super().__init__(f"answers {status}")
        self.status = status
        self.retry_after = retry_after


def have_proven(connection: http.client.HTTPConnection, folder: str, token: str | None) -> None:
    """Challenge the server at the other end; ``folder`` is the path of its address.

    When this returns, the connection is open and leads to a server that knows the token; it does not open itself again.

    Raises:
        NotProven: it did not show that it knows the token, or there is none to check it by.
        Away: it is too busy, or a proxy stands there without it.
        OSError, http.client.HTTPException: nobody answers.
    """
    if not token:
        raise NotProven("there is no token to check it by")
    challenge = new_challenge()
    connection.request("GET", f"{folder.rstrip('/')}{IDENTITY_PATH}?challenge={challenge}")
    # From here on a closed connection is an error: opened anew, it might lead to somebody else.
    connection.auto_open = 0
    response = connection.getresponse()
    body = response.read(MAX_PROOF_BYTES)
    if response.status == 429 or response.status >= 500:
        raise Away(response.status, response.getheader("Retry-After"))
    if response.status != 200:
        raise NotProven(f"it answers {response.status}")
    check_proof(token, challenge, body)
