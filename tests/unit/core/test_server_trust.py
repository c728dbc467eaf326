"""Challenge and answer, and connections that carry a token only after them."""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest
import trustme

from loaderwatch.core.client import Client, ServerError
from loaderwatch.core.server_trust import (
    Connection,
    NotProven,
    Server,
    check_proof,
    is_there,
    new_challenge,
    proofs,
)
from tests.waiting import PATIENCE_S

TOKEN = "a-secret-for-tests"


def test_a_server_that_knows_the_token_proves_it_without_saying_it() -> None:
    challenge = new_challenge()
    answer = msgspec.json.encode(proofs(["viewer", "agent"], challenge))
    check_proof("agent", challenge, answer)
    check_proof("viewer", challenge, answer)
    assert b"agent" not in answer


def test_an_answer_is_worth_nothing_for_another_challenge() -> None:
    answer = msgspec.json.encode(proofs(["agent"], new_challenge()))
    with pytest.raises(NotProven, match="does not know this token"):
        check_proof("agent", new_challenge(), answer)


@pytest.mark.parametrize(
    "answer",
    [b"", b"<html>", b"[]", b"{}", b'{"proofs": "x"}', b'{"proofs": [1]}', b"\xff", b'{"status": "ok"}'],
)
def test_what_is_no_answer_proves_nothing(answer: bytes) -> None:
    with pytest.raises(NotProven, match="does not answer as a loaderwatch server"):
        check_proof("agent", new_challenge(), answer)


@pytest.mark.parametrize("answer", [b'{"proofs": []}', '{"proofs": ["\u00e9"]}'.encode()])
def test_no_proof_or_a_strange_one(answer: bytes) -> None:
    with pytest.raises(NotProven, match="does not know this token"):
        check_proof("agent", new_challenge(), answer)


class Scripted:
    """A server that answers each request as a test says, and keeps the connection of each request."""

    def __init__(self, host: str = "127.0.0.1", *, certificate: ssl.SSLContext | None = None) -> None:
        self.answer: Callable[[str], bytes] = self.proven
        self.secrets = [TOKEN]
        self.requests: list[
            tuple[int, str]
        ] = []  # number of the connection, and all that came with the request
        self._certificate = certificate
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, 0), family=family)
        name = f"[{host}]" if ":" in host else host
        self.url = f"{'http' if certificate is None else 'https'}://{name}:{self._socket.getsockname()[1]}"
        self._number = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def proven(self, request: str) -> bytes:
        """Prove knowing the secrets, and answer all else with an empty list."""
        found = re.search(r"challenge=(\w+)", request)
        return ok(msgspec.json.encode(proofs(self.secrets, found[1])) if found else b"[]")

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._number += 1
            threading.Thread(target=self._serve, args=(connection, self._number), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            if self._certificate is not None:
                connection = self._certificate.wrap_socket(connection, server_side=True)
            with connection:
                while data := connection.recv(65536):
                    self.requests.append((number, data.decode()))
                    answer = self.answer(data.decode())
                    connection.sendall(answer)
                    if b"Connection: close" in answer:
                        return
        except OSError:
            return

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def ok(body: bytes, more: str = "") -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


def tokens_sent(server: Scripted) -> list[int]:
    """Return the connections on which the token came."""
    return [number for number, request in server.requests if TOKEN in request]


def test_the_proof_and_the_requests_share_a_connection() -> None:
    with Scripted() as server, Connection(Server(server.url, TOKEN), 5.0) as connection:
        for _ in range(2):
            assert connection.ask("GET", "/runs", timeout_s=5.0).body == b"[]"
    assert [(number, "challenge" in request) for number, request in server.requests] == [
        (1, True),
        (1, False),
        (1, False),
    ]
    assert tokens_sent(server) == [1, 1]


def test_after_a_connection_was_closed_the_server_proves_itself_again() -> None:
    """The other end closes it after an answer, and by then another process has the port."""
    with Scripted() as server, Connection(Server(server.url, TOKEN), 5.0) as connection:
        server.answer = lambda request: (
            server.proven(request) if "challenge" in request else ok(b"[]", "Connection: close\r\n")
        )
        connection.ask("GET", "/runs", timeout_s=5.0)
        server.secrets = ["another's"]
        with pytest.raises(NotProven):
            connection.ask("GET", "/runs", timeout_s=5.0)
    assert tokens_sent(server) == [1]


def test_a_server_that_hangs_up_after_its_proof_is_not_followed() -> None:
    with Scripted() as server, Connection(Server(server.url, TOKEN), 5.0) as connection:
        server.answer = lambda request: server.proven(request).replace(
            b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1
        )
        with pytest.raises(ConnectionError, match="hangs up after its proof"):
            connection.ask("GET", "/runs", timeout_s=5.0)
    assert tokens_sent(server) == []


def test_our_own_server_has_to_know_its_key_besides() -> None:
    """A server elsewhere with the same tokens lacks the key: relaying a challenge to it does not help."""
    with Scripted() as server:
        assert is_there(Server(server.url, TOKEN), 5.0)
        assert not is_there(Server(server.url, TOKEN, key="a key"), 5.0)
        server.secrets = [TOKEN, "a key"]
        assert is_there(Server(server.url, TOKEN, key="a key"), 5.0)
        assert not is_there(Server(server.url, "another token", key="a key"), 5.0)
    assert tokens_sent(server) == []


@pytest.mark.parametrize("proves_first", [False, True])
def test_nobody_is_followed_to_another_address(proves_first: bool) -> None:
    with Scripted() as elsewhere, Scripted() as server:
        redirect = f"HTTP/1.1 307 -\r\nLocation: {elsewhere.url}/\r\nContent-Length: 0\r\n\r\n".encode()
        server.answer = lambda request: (
            server.proven(request) if proves_first and "challenge" in request else redirect
        )
        with pytest.raises(ServerError, match="307"):
            Client(server.url, TOKEN).runs()
    assert elsewhere.requests == []
    assert tokens_sent(server) == ([1] if proves_first else [])


def test_no_proxy_of_the_environment_sees_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with Scripted() as proxy, Scripted() as server:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
            monkeypatch.setenv(name.upper(), proxy.url)
        assert Client(server.url, TOKEN).runs() == []
    assert proxy.requests == []
    assert tokens_sent(server) == [1]


@pytest.mark.parametrize("sent", [b"HTTP/1.1 100 Continue\r\n\r\n", b"x"], ids=["100 Continue", "bytes"])
def test_a_stranger_that_sends_a_little_now_and_then_is_not_waited_for(sent: bytes) -> None:
    """Each of them restarts a socket's timeout."""
    over = threading.Event()

    def drip(connection: socket.socket) -> None:
        with suppress(OSError):
            while not over.wait(0.02):
                connection.sendall(sent)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        asked = threading.Thread(target=is_there, args=(Server(url, TOKEN), 0.5), daemon=True)
        asked.start()
        connection, _ = listener.accept()
        with connection:
            dripping = threading.Thread(target=drip, args=(connection,))
            dripping.start()
            asked.join(PATIENCE_S)
            over.set()
            dripping.join(PATIENCE_S)
    assert not asked.is_alive()


def test_without_a_token_a_server_is_read_from_and_sent_nothing() -> None:
    with Scripted() as server:
        with Connection(Server(server.url, None), 5.0) as connection:
            assert connection.ask("GET", "/runs", timeout_s=5.0).body == b"[]"
            with pytest.raises(NotProven, match="there is no token to check it by"):
                connection.ask("POST", "/server/stop", b"secret", timeout_s=5.0)
        assert len(server.requests) == 1


def test_ipv6() -> None:
    try:
        server = Scripted("::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    with server:
        assert Client(server.url, TOKEN).runs() == []


def test_over_tls_the_connection_has_the_certificate_and_the_proof() -> None:
    authority = trustme.CA()
    own, other = authority.issue_cert("localhost"), authority.issue_cert("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.configure_cert(context)
    pem = own.cert_chain_pems[0].bytes().decode()
    with Scripted(certificate=context) as server:
        assert Client(server.url, TOKEN, pem).runs() == []
        server.secrets = ["another's"]
        with pytest.raises(ServerError, match="has not proven"):
            Client(server.url, TOKEN, pem).runs()
        with pytest.raises(ssl.SSLCertVerificationError):
            Client(server.url, TOKEN, other.cert_chain_pems[0].bytes().decode()).runs()
    assert len(tokens_sent(server)) == 1
