"""docs/http-api.md against the server: every route, every key of a live run, every error status."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from starlette.routing import Route

from loaderwatch.core.answers import Evidence
from loaderwatch.core.facts import LoaderInfo, StackDump
from loaderwatch.detect.finding import Finding, Folded, Texts
from loaderwatch.server.app import create_app
from loaderwatch.server.config_file import ServeOptions
from loaderwatch.server.store.metrics import METRICS
from tests.fakes.feed import SECOND, Feed
from tests.fakes.profiles import STACKS, ZIP, counts
from tests.fakes.serving import Access, ScriptedDetector, serving, wait_until

RUN: Final = "/api/v1/runs/{run}"
ANSWERS: Final = {
    "/api/v1/runs": "/runs",
    f"{RUN}/summary": "/runs/run-1/summary",
    f"{RUN}/series": "/runs/run-1/series?metric=wait_s",
    f"{RUN}/heatmap": "/runs/run-1/heatmap?metric=data_wait_ratio",
    f"{RUN}/findings": "/runs/run-1/findings",
    f"{RUN}/profile": "/runs/run-1/profile",
}
"""A route, and what to ask a live run's."""


@pytest.fixture(scope="module")
def sections() -> dict[tuple[str, str], str]:
    """The document's sections by method and path; a heading may name several."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "http-api.md").read_text()
    found = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        methods = ["GET"]
        for one in heading.split(" · "):
            *said, address = one.replace(",", "").split()
            methods = said or methods
            for method in methods:
                key = (method, address.partition("?")[0])
                assert key not in found, f"{key} has two headings"
                found[key] = body
    return found


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """A live run of two ranks in which something was found, with all that a finding may have."""
    detector = ScriptedDetector()
    feeds = [Feed(host=f"gpu0{rank}", rank=rank, world_size=2) for rank in range(2)]
    began_ns = feeds[0].started_ns
    evidence = [Evidence(label="data wait", value=0.5, unit="ratio")]
    about: dict[str, Any] = {"code": "hung", "scenario": "S36", "began_ns": began_ns}
    detector.findings = [
        Finding(
            key="k", severity="critical", confidence=0.9, texts=Texts("t", "c", "a"), evidence=evidence,
            rank=0,
            stacks=[StackDump(rank=0, worker=0, pid=5, taken_ns=began_ns + SECOND, text="Thread 0x1")],
            folded=[Folded(key="f", severity="info", texts=Texts("t"), evidence=evidence, **about)], **about,
        )
    ]  # fmt: skip
    with serving(tmp_path_factory.mktemp("doc"), detector=detector) as access:
        for feed in feeds:
            envelope = feed.envelope(steps=20)
            rows = counts([ZIP], [9], t_ns=envelope.made_ns)
            tables = {**envelope.tables, "profile": rows}
            access.send(msgspec.structs.replace(envelope, tables=tables, profile_stacks=STACKS))
        wait_until("the finding", lambda: access.get("/runs/run-1/findings"))
        yield access


def keys_of(answer: Any) -> Iterator[str]:
    """All names at any depth, except the parameters of messages, which differ by message."""
    if isinstance(answer, dict):
        yield from answer
        answer = [part for name, part in answer.items() if name != "params"]
    for part in answer if isinstance(answer, list) else ():
        yield from keys_of(part)


def test_every_route_has_its_section(sections: dict[tuple[str, str], str], tmp_path: Path) -> None:
    options = ServeOptions(data_dir=tmp_path)
    options.runs_dir.mkdir()
    app = create_app(options, tokens=None, url="http://127.0.0.1:1")
    app.state.parts.store.close()
    routes = {
        (method, route.path)
        for route in app.routes
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }
    routes |= {
        (method.upper(), path) for path, methods in app.openapi()["paths"].items() for method in methods
    }
    routes.remove(("GET", "/{path:path}"))  # the page's files
    assert set(sections) == routes


def test_every_metric_is_named(sections: dict[tuple[str, str], str]) -> None:
    said = " ".join(re.findall(r"^(?:- [^`]*|  )`([^`]+)`", sections["GET", f"{RUN}/series"], re.MULTILINE))
    assert sorted(said.split()) == sorted(METRICS)


@pytest.mark.parametrize("path", ANSWERS)
def test_every_key_of_an_answer_is_named(
    access: Access, sections: dict[tuple[str, str], str], path: str
) -> None:
    where, _, query = ANSWERS[path].partition("?")
    answer = access.get(where, **dict(part.split("=") for part in query.split("&") if part))
    section = sections["GET", path]
    named = set(re.findall(r"\w+", section))
    if "see LoaderInfo" in section:
        named |= set(LoaderInfo.__struct_fields__)
    found = set(keys_of(answer))
    assert len(found) > 4
    assert sorted(found - named) == []


def test_the_summary_of_the_document_is_one(access: Access, sections: dict[tuple[str, str], str]) -> None:
    """Nothing is in its example that no answer has."""
    (example,) = re.findall(
        r"^```json\n(.*?)^```", sections["GET", f"{RUN}/summary"], re.MULTILINE | re.DOTALL
    )
    shown = json.loads(example)
    answer = access.get("/runs/run-1/summary")
    assert list(shown) == list(answer)
    for part in ("hosts", "ranks"):
        assert set(shown[part][0]) == set(answer[part][0])
    assert set(shown["verdict"]) == set(answer["verdict"])


def test_every_status_of_an_error_is_named(repo_root: Path) -> None:
    used = {
        status
        for path in (repo_root / "loaderwatch" / "server").rglob("*.py")
        for status in re.findall(r"error_answer\(\s*(\d{3})", path.read_text())
    }
    assert {"400", "404", "413", "503"} <= used, "or they are written down in another way now"
    head = (repo_root / "docs" / "http-api.md").read_text().partition("\n**Tokens.**")[0]
    assert sorted(used - set(re.findall(r"\b\d{3}\b", head))) == []
