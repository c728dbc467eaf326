"""The page's files."""

from __future__ import annotations

import gzip
import json
import re
import threading
from pathlib import Path

import pytest
from starlette.requests import Request

from loaderwatch.server.page import StaticFiles, find_web
from tests.waiting import wait_until


def request(query: str = "", **headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request(
        {"type": "http", "method": "GET", "path": "/", "query_string": query.encode(), "headers": raw}
    )


@pytest.fixture
def web(tmp_path: Path) -> Path:
    web = tmp_path / "web"
    (web / "js").mkdir(parents=True)
    (web / "index.html").write_text(
        '<link href="data:x"><a href="#x"></a><script src="/js/main.js"></script>'
    )
    (web / "js" / "main.js").write_text("export {};\n" * 50)
    (web / ".hidden").write_text("no")
    (tmp_path / "secret.txt").write_text("no")
    return web


@pytest.fixture
def files(web: Path) -> StaticFiles:
    return StaticFiles(web)


def address(files: StaticFiles) -> str:
    """Where the page says that its script is."""
    page = files.response("", request())
    assert page is not None
    assert page.headers["cache-control"] == "no-cache"
    return bytes(page.body).decode().split('src="/')[1].partition('"')[0]


def test_the_page_is_found_here() -> None:
    assert (find_web() / "index.html").is_file()


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


def test_what_the_page_names_is_kept_for_good(files: StaticFiles) -> None:
    where = address(files)
    assert where.startswith("v/")
    assert where.endswith("/js/main.js")
    answer = files.response(where, request())
    assert answer is not None
    assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
    assert bytes(answer.body).startswith(b"export")
    page = files.response("index.html", request())
    assert page is not None
    assert b'href="data:x"' in bytes(page.body)
    assert b'href="#x"' in bytes(page.body)


def test_the_real_page_names_nothing_that_is_not_kept() -> None:
    """Every address in it, and none in a module or style sheet that would leave the hash behind."""
    files = StaticFiles(find_web())
    page = files.response("", request())
    assert page is not None
    named = re.findall(r'(?:src|href)="(/[^"]+)"', bytes(page.body).decode())
    assert len(named) > 5
    for name in named:
        answer = files.response(name[1:], request())
        assert answer is not None, name
        assert "immutable" in answer.headers["cache-control"], name
    for path in (*find_web().rglob("js/**/*.js"), *find_web().rglob("*.css")):
        assert not re.findall(r"""(?:(?:from\s|import\()\s*["']|url\(\s*["']?)/""", path.read_text()), path


def test_a_change_of_any_file_is_another_address(files: StaticFiles, web: Path) -> None:
    before = address(files)
    (web / "js" / "other.js").write_text("export {};")
    after = address(files)
    assert before != after
    outdated = files.response(before, request())
    assert outdated is not None
    assert outdated.headers["cache-control"] == "no-cache"


def test_the_page_itself_has_no_address_that_is_kept(files: StaticFiles) -> None:
    version = address(files).split("/")[1]
    assert files.response(f"v/{version}/", request()) is None
    assert files.response(f"v/{version}/index.html", request()) is None
    assert files.response(f"v/{version}/../secret.txt", request()) is None


def test_every_file_is_packed_before_it_is_asked_for(
    files: StaticFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.warm()
    wait_until(
        "the files are packed", lambda: "loaderwatch-warm" not in {t.name for t in threading.enumerate()}
    )
    monkeypatch.setattr(gzip, "compress", lambda *_: pytest.fail("packed only now"))
    answer = files.response("js/main.js", request(accept_encoding="gzip"))
    assert answer is not None
    assert gzip.decompress(bytes(answer.body)).startswith(b"export")


def test_plotly_is_the_bundle_that_its_recipe_makes() -> None:
    """``make plotly`` after a change of the version or of the traces."""
    root = find_web().parent
    wanted = json.loads((root / "vendor" / "plotly" / "package.json").read_text())["devDependencies"][
        "plotly.js"
    ]
    (traces,) = re.findall(
        r"const TRACES = (\[.*\]);", (root / "vendor" / "plotly" / "bundle.mjs").read_text()
    )
    banner = (find_web() / "vendor" / "plotly.min.js").read_text().partition("\n")[0]
    assert f"plotly.js {wanted} with scatter, {', '.join(json.loads(traces))};" in banner
    drawn = {
        kind
        for path in (find_web() / "js" / "charts").glob("*.js")
        for kind in re.findall(r'^ +type: "(\w+)",$', path.read_text(), re.MULTILINE)
    }
    assert drawn - {"date", "line", "rect"} <= {"scatter", *json.loads(traces)}
    licences = (find_web() / "vendor" / "plotly.LICENSE.txt").read_text()
    assert f"plotly.js {wanted} (MIT)" in licences


def test_fluent_is_the_build_that_its_package_holds() -> None:
    """``make fluent`` after a change of the version."""
    package = find_web().parent / "node_modules" / "@fluent" / "bundle" / "esm"
    if not package.exists():
        pytest.skip("npm ci has not installed @fluent/bundle")
    ours = find_web() / "vendor" / "fluent"
    names = {path.name for pattern in ("*.js", "*.d.ts") for path in package.glob(pattern)}
    assert {path.name for path in ours.iterdir()} == names | {"LICENSE.txt"}
    assert [name for name in names if (ours / name).read_bytes() != (package / name).read_bytes()] == []


def test_a_first_visit_is_light() -> None:
    """All files as they are sent, without the catalogue of the command line.

    The budget: 600 KB with 40 KB of chart data. ``tests/browser/test_visits.py`` counts what a browser gets.
    """
    files = [path for kind in ("*.html", "*.js", "*.css", "*.ftl") for path in find_web().rglob(kind)]
    assert sum(len(gzip.compress(path.read_bytes(), 9)) for path in files) <= 560_000


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
