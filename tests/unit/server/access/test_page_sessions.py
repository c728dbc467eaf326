"""Sessions of the page: what a signed request opens, and for how long."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
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
    """A gate before an application that greets pages and echoes bodies, with a clock that the test sets."""

    def __init__(self, tokens: Tokens = TOKENS, port: int = 8790, public_url: str | None = None) -> None:
        self.now_s = 1_800_000_000.0
        self.keys = Keys(tokens)
        self.port = port
        self.public_url = public_url
        self.restart()

    def restart(self) -> None:
        """As another process of the same data directory."""
        self.sessions = PageSessions(
            lambda: self.now_s, listens_at=f"127.0.0.1:{self.port}", public_url=self.public_url
        )
        self.gate = Gate(
            self._inside, keys=self.keys, sessions=self.sessions, hosts=allowed_hosts("127.0.0.1", [])
        )

    async def _inside(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.url.path != page_sessions.SESSION_PATH:
            await PlainTextResponse(await request.body())(scope, receive, send)
            return
        said = self.sessions.greet(
            self.keys.tokens,
            request.query_params["challenge"],
            request.query_params.get("ticket"),
            request.headers["host"],
        )
        answer = {"ticket": said.ticket, "boot": said.boot, "now_ms": said.now_ms, "proofs": said.proofs}
        await JSONResponse(answer)(scope, receive, send)

    host = "127.0.0.1:8790"
    """The Host header of requests."""

    def request(self, method: str, url: str, **more: object) -> httpx.Response:
        """As ``httpx.Client.request``."""

        async def call() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.gate)
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{self.host}") as client:
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
    assert served.status(session, "POST", ACK, "x" * (page_sessions.SIGNED_BYTES + 1)) == 413


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
        RUNS + f"&proof=x.{'9' * 400}.b.y",
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


def test_a_session_ends_where_the_server_moves_to_another_address(served: Served) -> None:
    """A process that takes its old address could pass the page's requests on, with any Host header."""
    session = served.sign_in("owner-token")
    served.port = 8791
    served.restart()
    for served.host in ("127.0.0.1:8790", "127.0.0.1:8791", "localhost:8790"):
        again = greeted(served, session.ticket)  # type: ignore[arg-type]
        assert again["ticket"] != session.ticket
        known = replace(session, boots=again["boot"])
        assert served.status(known, "GET", RUNS) == 401
        assert served.status(known, "POST", ACK) == 401


def test_a_tunnel_may_have_another_port(served: Served) -> None:
    served.host = "localhost:9000"
    session = served.sign_in("owner-token")
    assert served.status(session, "POST", ACK) == 200
    served.restart()
    again = greeted(served, session.ticket)  # type: ignore[arg-type]
    assert again["ticket"] == session.ticket


_TICKET = st.text("0123456789abcdef-", max_size=120)
_PROOFS = st.one_of(
    st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#"), max_size=600),
    st.builds("{}.{}.{}.{}".format, _TICKET, st.text("0123456789+-_e", max_size=450), _TICKET, _TICKET),
)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(proof=_PROOFS, method=st.sampled_from(["GET", "POST"]))
@example(proof=f"x.{'9' * 400}.b.y", method="GET")
def test_no_proof_is_a_fault_of_the_server(served: Served, proof: str, method: str) -> None:
    assert served.request(method, f"/api/v1/runs?proof={proof}").status_code == 401


def test_servers_of_one_database_accept_each_others_sessions_at_the_public_address() -> None:
    """A session that began at the address of one server is for that server."""
    one, other = (
        Served(replace(TOKENS, page_key=key, shared_key="shared"), port, "http://localhost:8792")
        for key, port in (("one", 8790), ("other", 8791))
    )
    session = one.sign_in("owner-token")
    for other.host in ("127.0.0.1:8790", "localhost:8792"):
        assert greeted(other, session.ticket)["ticket"] != session.ticket  # type: ignore[arg-type]
    one.host = other.host = "localhost:8792"
    session = one.sign_in("owner-token")
    assert other.status(session, "GET", RUNS) == 401, "until the other process has proven itself, too"
    boot = greeted(other, session.ticket)["boot"]  # type: ignore[arg-type]
    assert other.status(replace(session, boots=f"{session.boots}-{boot}"), "GET", RUNS) == 200
    stranger = Served(replace(TOKENS, page_key="stranger"), 8791, "http://localhost:8792")
    assert greeted(stranger, session.ticket)["ticket"] != session.ticket  # type: ignore[arg-type]
