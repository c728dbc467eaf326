"""``loaderwatch token rotate`` while a server, a job and a page are running."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import httpx

from tests.fakes.page_session import sign_in
from tests.fakes.serving import Access, EventReader, ServeProcess, wait_until
from tests.fakes.streaming import Streaming
from tests.waiting import PATIENCE_S


def rotate(data_dir: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "loaderwatch", "token", "rotate", "--data-dir", str(data_dir)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_old_tokens_open_nothing_at_once_and_the_job_goes_on(data_dir: Path) -> None:
    with ServeProcess(data_dir, "--port", "0") as server:
        old = server.start()
        with (
            Streaming(data_dir, None, run_id="run1") as it,
            httpx.Client(base_url=old.url, trust_env=False) as page,
        ):
            del it.environ["LOADERWATCH_TOKEN"]
            it.write(period_s=0.02)
            it.stream()
            wait_until("the run", lambda: old.get("/runs"))
            session = sign_in(page, old.owner)
            assert session.ask(page, "GET", "/api/v1/runs").status_code == 200
            with EventReader(old, "run1") as events:
                events.wait("a snapshot", lambda event: event["event"] == "snapshot")
                done = rotate(data_dir)
                assert done.returncode == 0, done.stderr
                assert "refuses the old ones" in done.stdout
                events.ended.wait(PATIENCE_S)
                assert events.ended.is_set(), "the stream that an old token opened has ended"
            for token in (old.agent, old.viewer, old.owner):
                with old.client(token) as client:
                    assert client.get("/api/v1/runs").status_code == 401
                    assert client.post("/api/v1/ingest", content=b"").status_code == 401
            assert session.ask(page, "GET", "/api/v1/runs").status_code == 401, "the session has ended"

            new = json.loads((data_dir / "token.json").read_text())
            access = Access(old.url, new["agent"], new["viewer"], new["owner"])
            assert not set(new.values()) & {old.agent, old.viewer, old.owner}
            assert not any(token in done.stdout for token in new.values()), (
                "a terminal's history is no place for them"
            )
            assert new["owner"] in json.loads((data_dir / "server.json").read_text())["viewer_url"]
            rotated_at = time.time()
            wait_until("the job", lambda: access.get("/runs")[0]["last_seen_at"] > rotated_at + 1)
            assert access.get("/runs/run1/summary")["lost_records"] == 0
            assert "refuses" not in it.log(), "nobody is told of what mends itself"


def test_without_a_server_the_next_one_has_them(tmp_path: Path) -> None:
    with ServeProcess(tmp_path, "--port", "0") as server:
        old = server.start()
        server.stop()
    done = rotate(tmp_path)
    assert done.returncode == 0
    assert "no server runs here" in done.stdout
    with ServeProcess(tmp_path, "--port", "0") as server:
        new = server.start()
        assert new.owner != old.owner
        assert new.get("/runs") == []
    missing = rotate(tmp_path / "nowhere")
    assert missing.returncode == 1
    assert "cannot write" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_a_session_that_began_with_the_token_of_the_command_line_ends_too(data_dir: Path) -> None:
    """That token stays as it is; the key of the sessions does not."""
    token = "a-token-of-the-command-line"
    with ServeProcess(data_dir, "--port", "0", "--token", token) as server:
        access = server.start()
        with access.client("") as page, access.client(token) as client:
            session = sign_in(page, token)
            assert session.ask(page, "GET", "/api/v1/runs").status_code == 200
            assert rotate(data_dir).returncode == 0
            wait_until("the end", lambda: session.ask(page, "GET", "/api/v1/runs").status_code == 401)
            assert client.get("/api/v1/runs").status_code == 200
