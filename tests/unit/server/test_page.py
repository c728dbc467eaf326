"""The page's files."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import pytest
from starlette.requests import Request

from loaderwatch.server.page import StaticFiles, find_plotly, find_web
from tests.waiting import PATIENCE_S


def request(query: str = "", **headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request(
        {"type": "http", "method": "GET", "path": "/", "query_string": query.encode(), "headers": raw}
    )


@pytest.fixture
def files(tmp_path: Path) -> StaticFiles:
    web = tmp_path / "web"
    (web / "js").mkdir(parents=True)
    (web / "index.html").write_text('<script src="/plotly.min.js"></script>')
    (web / "js" / "main.js").write_text("export {};\n" * 50)
    (web / ".hidden").write_text("no")
    (tmp_path / "secret.txt").write_text("no")
    plotly = tmp_path / "plotly.min.js"
    plotly.write_text("var Plotly = {};" * 100)
    return StaticFiles(web, plotly)


def test_the_page_and_plotly_are_found_here() -> None:
    assert (find_web() / "index.html").is_file()
    assert find_plotly().stat().st_size > 1_000_000


def test_files_have_types_and_etags(files: StaticFiles) -> None:
    answer = files.response("js/main.js", request())
    assert answer is not None
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    again = files.response("js/main.js", request(if_none_match=answer.headers["etag"]))
    assert again is not None
    assert again.status_code == 304
    assert again.body == b""


def test_gzip_where_it_is_understood(files: StaticFiles) -> None:
    packed = files.response("js/main.js", request(accept_encoding="gzip, br"))
    plain = files.response("js/main.js", request())
    assert packed is not None
    assert plain is not None
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(bytes(packed.body)) == plain.body


def test_plotly_is_kept_for_good_under_its_hash(files: StaticFiles) -> None:
    page = files.response("", request())
    assert page is not None
    source = bytes(page.body).decode().split('"')[1]
    name, _, query = source.lstrip("/").partition("?")
    assert name == "plotly.min.js"
    answer = files.response(name, request(query))
    assert answer is not None
    assert "immutable" in answer.headers["cache-control"]
    other = files.response(name, request("v=old"))
    assert other is not None
    assert other.headers["cache-control"] == "no-cache"


def test_plotly_is_packed_in_the_background(files: StaticFiles) -> None:
    files.warm()
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = files.response("plotly.min.js", request(accept_encoding="gzip"))
        assert answer is not None
        if "content-encoding" in answer.headers:
            break
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert gzip.decompress(bytes(answer.body)).startswith(b"var Plotly")


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "js/../../secret.txt",
        ".hidden",
        "//etc/passwd",
        "/etc/passwd",
        "js",
        "no.js",
        "a\0b",
        "..\\secret.txt",
        "js/main.js/x",
    ],
)
def test_nothing_else_is_given_out(files: StaticFiles, path: str) -> None:
    assert files.response(path, request()) is None


def test_a_changed_file_is_read_again(files: StaticFiles, tmp_path: Path) -> None:
    before = files.response("js/main.js", request())
    (tmp_path / "web" / "js" / "main.js").write_text("export const x = 1;")
    after = files.response("js/main.js", request())
    assert before is not None
    assert after is not None
    assert after.body == b"export const x = 1;"
    assert before.headers["etag"] != after.headers["etag"]
