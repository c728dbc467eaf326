"""Sessions of the page: what a signed request opens, and for how long."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import Receive, Scope, Send

from loaderwatch.server.access import page_sessions
from loaderwatch.server.access.page_sessions import PageSessions
from loaderwatch.server.access.request_gate import Gate
from loaderwatch.server.access.tokens import Keys, Tokens, allowed_hosts
from tests.fakes.page_session import PageSession, greeted, sign_in

TOKENS = Tokens("agent-token", "viewer-token", "owner-token", "master", page_key="page")
RUNS, ACK = "/api/v1/runs?sort=name&q=a%20b", "/api/v1/alerts/x/ack"


class Served:
    """A gate in front of an application that greets pages and echoes bodies, with a clock that the test sets."""

    def __init__(self, tokens: Tokens = TOKENS) -> None:
        self.now_s = 1_800_000_000.0
        self.keys = Keys(tokens)
        self.restart()

    def restart(self) -> None:
        """As another process of the same data directory."""
        self.sessions = PageSessions(lambda: self.now_s)
        self.gate = Gate(
            self._inside, keys=self.keys, sessions=self.sessions, hosts=allowed_hosts("127.0.0.1", [])
        )

    async def _inside(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.url.path != page_sessions.SESSION_PATH:
            await PlainTextResponse(await request.body())(scope, receive, send)
            return
        said = self.sessions.greet(
            self.keys.tokens, request.query_params["challenge"], request.query_params.get("ticket")
        )
        answer = {"ticket": said.ticket, "boot": said.boot, "now_ms": said.now_ms, "proofs": said.proofs}
        await JSONResponse(answer)(scope, receive, send)

    def request(self, method: str, url: str, **more: object) -> httpx.Response:
        """As ``httpx.Client.request``."""

        async def call() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.gate)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8790") as client:
                return await client.request(method, url, **more)  # type: ignore[arg-type]

        return asyncio.run(call())

    def get(self, url: str, **more: object) -> httpx.Response:
        """As ``httpx.Client.get``."""
        return self.request("GET", url, **more)

    def sign_in(self, token: str) -> PageSession:
        """Sign in with a token."""
        return sign_in(self, token)  # type: ignore[arg-type]

    def status(self, session: PageSession, method: str, target: str, body: str = "") -> int:
        """The status of a signed request that is sent now."""
        address = session.signed(method, target, body, int(self.now_s * 1000))
        return self.request(method, address, content=body).status_code


@pytest.fixture
def served() -> Served:
    return Served()


def test_each_token_opens_its_own_doors_and_none_sends(served: Served) -> None:
    for token, change in (("viewer-token", 403), ("owner-token", 200), ("master", 200)):
        session = served.sign_in(token)
        assert served.status(session, "GET", RUNS) == 200
        assert served.status(session, "POST", ACK) == change
        assert served.status(session, "POST", "/api/v1/ingest") == 403
    for token in ("agent-token", "wrong"):
        with pytest.raises(AssertionError):
            served.sign_in(token)


def test_the_body_arrives_as_it_was_signed(served: Served) -> None:
    session = served.sign_in("owner-token")
    body = json.dumps({"note": "läuft\n"}, ensure_ascii=False)
    address = session.signed("POST", ACK, body, int(served.now_s * 1000))
    assert served.request("POST", address, content=body + " ").status_code == 401
    assert served.request("POST", address, content=body).text == body
    assert served.status(session, "POST", ACK, "x" * (page_sessions.SIGNED_BYTES + 1)) == 401


def test_a_signature_fits_one_request_alone(served: Served) -> None:
    session = served.sign_in("owner-token")
    address = session.signed("GET", RUNS, sent_ms=int(served.now_s * 1000))
    assert served.get(address).status_code == 200
    assert served.request("POST", address).status_code == 401
    for changed in (
        address.replace("name", "size"),
        address.replace("/runs", "/server"),
        address.replace(session.boots, session.boots + "-" + session.boots),
        address + "&x=1",
        address.replace("?", "?x=1&"),
        address[:-1],
        address.replace("&proof=", "&proof=&proof="),
        address.replace("&proof=", "&wrongproof="),
        RUNS + "&proof=" + "9" * 600,
        RUNS + "&proof=a.b.c.d",
        RUNS + "&proof=%00.1.2.3",
    ):
        assert served.get(changed).status_code == 401, changed


def test_what_changes_something_counts_once(served: Served) -> None:
    session = served.sign_in("owner-token")
    address = session.signed("POST", ACK, sent_ms=int(served.now_s * 1000))
    assert [served.request("POST", address).status_code for _ in range(2)] == [200, 401]
    served.now_s += page_sessions.WINDOW_S / 2
    assert served.request("POST", address).status_code == 401
    assert served.status(session, "POST", ACK) == 200
    served.now_s += 3 * page_sessions.WINDOW_S
    assert served.status(session, "POST", ACK) == 200
    assert len(served.sessions._used) == 1, "older ones are forgotten"


def test_a_request_is_for_one_process_of_the_server_and_for_now(served: Served) -> None:
    """Another process may have received it while the server was dead."""
    session = served.sign_in("owner-token")
    kept = [
        session.signed(method, path, sent_ms=int(served.now_s * 1000))
        for method, path in (("GET", RUNS), ("POST", ACK))
    ]
    served.restart()
    for address in kept:
        assert served.request("GET" if RUNS in address else "POST", address).status_code == 401
    again = greeted(served, session.ticket)  # type: ignore[arg-type]
    assert again["ticket"] == session.ticket, "the session itself goes on"
    known = replace(session, boots=f"{session.boots}-{again['boot']}")
    address = known.signed("GET", RUNS, sent_ms=int(served.now_s * 1000))
    assert served.get(address).status_code == 200
    served.now_s += page_sessions.WINDOW_S + 1
    assert served.get(address).status_code == 401


def test_a_session_ends_and_the_owners_may_change_things_for_a_day(served: Served) -> None:
    session = served.sign_in("owner-token")
    served.now_s += page_sessions.CHANGE_S + 1
    assert served.status(session, "POST", ACK) == 403
    assert served.status(session, "GET", RUNS) == 200
    served.now_s += page_sessions.READ_S
    assert served.status(session, "GET", RUNS) == 401
    assert greeted(served, session.ticket)["ticket"] != session.ticket  # type: ignore[arg-type]


@pytest.mark.parametrize("new", [{"page_key": "new"}, {"owner": "new"}])
def test_new_tokens_or_a_new_key_end_it(served: Served, new: dict[str, str]) -> None:
    session = served.sign_in("owner-token")
    served.keys.tokens = replace(TOKENS, **new)
    assert served.status(session, "GET", RUNS) == 401


def test_a_ticket_of_somebody_elses_making_is_none(served: Served) -> None:
    session = served.sign_in("owner-token")
    issued, random, mac = session.ticket.split("-")
    for forged in (
        f"{int(issued) + 9}-{random}-{mac}",
        f"{issued}-{random}-{'0' * 64}",
        f"{issued}-{mac}",
        "-",
        "x",
    ):
        assert served.status(replace(session, ticket=forged), "GET", RUNS) == 401


def test_servers_of_one_database_accept_each_others_sessions() -> None:
    one, other = (Served(replace(TOKENS, page_key=key, shared_key="shared")) for key in ("one", "other"))
    session = one.sign_in("owner-token")
    assert other.status(session, "GET", RUNS) == 401, "until the other process has proven itself, too"
    boot = greeted(other, session.ticket)["boot"]  # type: ignore[arg-type]
    assert other.status(replace(session, boots=f"{session.boots}-{boot}"), "GET", RUNS) == 200
    stranger = Served(replace(TOKENS, page_key="stranger"))
    assert greeted(stranger, session.ticket)["ticket"] != session.ticket  # type: ignore[arg-type]
