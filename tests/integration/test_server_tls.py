"""TLS: a real certificate, real streamers, and nothing sent to who shows another one."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import trustme

from loaderwatch.core.errors import ConfigError
from loaderwatch.core.server_trust import client_context
from loaderwatch.server.process import read_certificate
from tests.fakes.page_session import sign_in
from tests.fakes.serving import Access, ServeProcess
from tests.fakes.streaming import Streaming, kill, wait_for
from tests.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.pem, cert.pem with key.pem for localhost, and other.pem with other.key that another CA signed."""
    folder = tmp_path_factory.mktemp("pki")
    for number, (certificate, key) in enumerate((("cert.pem", "key.pem"), ("other.pem", "other.key"))):
        authority = trustme.CA()
        issued = authority.issue_cert("localhost", "gpu01.example")
        (folder / certificate).write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(folder / key)
        if number == 0:
            authority.cert_pem.write_to_path(folder / "ca.pem")
    return folder


@pytest.fixture(scope="module")
def server(pki: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServeProcess, Access]]:
    data = tmp_path_factory.mktemp("tls")
    options = ("--ssl-certfile", str(pki / "cert.pem"), "--ssl-keyfile", str(pki / "key.pem"))
    with ServeProcess(data, "--port", "0", *options) as process:
        yield process, process.start()


def client(access: Access, pki: Path) -> httpx.Client:
    return httpx.Client(
        base_url=access.url.replace("127.0.0.1", "localhost"),
        headers={"authorization": f"Bearer {access.owner}"},
        verify=ssl.create_default_context(cafile=str(pki / "ca.pem")),
        trust_env=False,
    )


def names(access: Access, pki: Path) -> list[str]:
    with client(access, pki) as http:
        return [run["run_id"] for run in http.get("/api/v1/runs").json()]


def test_a_job_of_this_machine_knows_its_server_by_the_certificate(
    server: tuple[ServeProcess, Access], pki: Path
) -> None:
    """The certificate is not for 127.0.0.1, and no CA is configured; server.json names the certificate."""
    process, access = server
    assert access.url.startswith("https://127.0.0.1:")
    with Streaming(process.data_dir, None, run_id="here") as it:
        del it.environ["LOADERWATCH_TOKEN"]
        it.write(period_s=0.02)
        it.stream()
        wait_for(lambda: "here" in names(access, pki))
        listed = subprocess.run(
            [sys.executable, "-m", "loaderwatch", "runs", "--data-dir", str(process.data_dir), "--json"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        assert [run["run_id"] for run in json.loads(listed.stdout)] == ["here"]


def test_a_job_elsewhere_sends_once_it_trusts_the_ca(
    server: tuple[ServeProcess, Access], pki: Path, data_dir: Path
) -> None:
    """Until then nothing leaves, everything is kept, and the job is told what to do."""
    _, access = server
    url = access.url.replace("127.0.0.1", "localhost")
    with Streaming(data_dir, url, run_id="elsewhere", LOADERWATCH_TOKEN=access.agent) as it:
        it.write(period_s=0.02)
        refused = it.stream()
        wait_for(lambda: "certificate is not trusted here" in it.log())
        assert "LOADERWATCH_CA_FILE" in it.log()
        wait_for(lambda: any(path.is_file() for path in it.settings.outbox_dir.rglob("*")))
        assert "elsewhere" not in names(access, pki)
        kill(refused.pid)
        refused.wait(PATIENCE_S)
        it.environ["LOADERWATCH_CA_FILE"] = str(pki / "ca.pem")
        it.stream()
        wait_for(lambda: "elsewhere" in names(access, pki))
        with client(access, pki) as http:
            summary = http.get("/api/v1/runs/elsewhere/summary").json()
        assert summary["lost_records"] == 0, "what was kept came too"


def test_the_command_line_trusts_the_same(
    server: tuple[ServeProcess, Access], pki: Path, tmp_path: Path
) -> None:
    _, access = server
    environ = {
        "LOADERWATCH_DIR": str(tmp_path),
        "LOADERWATCH_SERVER": access.url.replace("127.0.0.1", "localhost"),
        "LOADERWATCH_TOKEN": access.viewer,
    }
    command = [sys.executable, "-m", "loaderwatch", "runs", "--json"]
    refused = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert refused.returncode == 1
    assert "certificate is not trusted here" in refused.stderr
    for variable in ("LOADERWATCH_CA_FILE", "SSL_CERT_FILE"):
        trusted = {**environ, variable: str(pki / "ca.pem")}
        taken = subprocess.run(
            command, env=trusted, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert taken.returncode == 0, taken.stderr
    missing = {**environ, "LOADERWATCH_CA_FILE": str(tmp_path / "none.pem")}
    said = subprocess.run(
        command, env=missing, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert said.returncode == 1
    assert "none.pem" in said.stderr
    assert "Traceback" not in said.stderr


def test_the_page_over_tls(server: tuple[ServeProcess, Access], pki: Path) -> None:
    _, access = server
    with client(access, pki) as http:
        opened = http.get("/", params={"token": access.owner})
        assert "set-cookie" not in opened.headers
        assert sign_in(http, access.owner).ask(http, "GET", "/api/v1/runs").status_code == 200
        assert "strict-transport-security" not in opened.headers, "it would bind every port of the host"
    port = access.url.rpartition(":")[2]
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"http://localhost:{port}/healthz", trust_env=False)


def test_another_certificate_is_not_our_server(server: tuple[ServeProcess, Access], pki: Path) -> None:
    """Who takes the port with a certificate of his own, of whatever CA, is not taken for the server."""
    _, access = server
    pinned = client_context((pki / "other.pem").read_text())
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(f"{access.url}/healthz", verify=pinned, trust_env=False)


def test_what_does_not_fit_is_said(pki: Path, tmp_path: Path) -> None:
    certificate, key = pki / "cert.pem", pki / "key.pem"
    assert read_certificate(None, None) is None
    pem = read_certificate(certificate, key)
    assert pem is not None
    assert pem in certificate.read_text()
    (tmp_path / "empty").touch()
    for wrong, said in (
        ((certificate, None), "go together"),
        ((None, key), "go together"),
        ((certificate, pki / "other.key"), "is not the key of"),
        ((tmp_path / "nowhere.pem", key), "nowhere.pem cannot be read: No such file"),
        ((certificate, tmp_path), "cannot be read: Is a directory"),
        ((tmp_path / "empty", key), "not a certificate and its key"),
        ((key, certificate), "not a certificate and its key"),
        ((certificate, tmp_path / "empty"), "not a certificate and its key"),
    ):
        with pytest.raises(ConfigError, match=said):
            read_certificate(*wrong)
    with pytest.raises(ConfigError, match="encrypted"):
        read_certificate(certificate, _encrypted(key, tmp_path))


def _encrypted(key: Path, folder: Path) -> Path:
    from cryptography.hazmat.primitives import serialization

    private = serialization.load_pem_private_key(key.read_bytes(), None)
    path = folder / "encrypted.pem"
    path.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    return path


def test_the_command_says_what_does_not_fit(pki: Path, tmp_path: Path) -> None:
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "loaderwatch", "serve", "--port", "0", "--data-dir", str(tmp_path)),
            *("--ssl-certfile", str(pki / "cert.pem"), "--ssl-keyfile", str(pki / "other.key")),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 2
    assert "is not the key of" in ended.stderr
    assert "Traceback" not in ended.stderr
