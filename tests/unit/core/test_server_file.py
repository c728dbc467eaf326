"""The files by which a server is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from loaderwatch.core.server_file import ServerFile, TokenFile, read_server_file, read_token_file


def test_what_a_server_writes_is_what_others_read(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    assert read_server_file(path) is None
    server = ServerFile("http://127.0.0.1:1", 7, "http://127.0.0.1:1/?token=t")
    server.write(path)
    assert read_server_file(path) == server
    assert server.page_url == "http://127.0.0.1:1/?token=t"
    assert ServerFile("http://127.0.0.1:1", 7).page_url == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"url": 1, "pid": 1}', b'{"url": "u"}', b"\xff"]
)
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    assert read_server_file(path) is None
    assert read_token_file(path) == TokenFile()


def test_tokens_of_an_older_version_have_no_owner(tmp_path: Path) -> None:
    path = tmp_path / "token.json"
    path.write_text('{"agent": "a", "viewer": "v"}')
    assert read_token_file(path) == TokenFile("a", "v", None)
