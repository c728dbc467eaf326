"""Two runs beside each other: the API, and the command line with a server and without, say the same."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from loaderwatch.cli import main
from tests.fakes.runs import SECOND
from tests.fakes.serving import Access, ServeProcess
from tests.fakes.two_runs import paced


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(argv)
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def feed(access: Access) -> None:
    """A run that waits half its time, and one with more workers that does not."""
    lately = time.time_ns() - 600 * SECOND
    access.send(paced("run-a", began_ns=lately, num_workers=2))
    access.send(
        paced("run-b", began_ns=lately, iteration_s=0.06, wait_ratio=0.08, start_s=0.5, num_workers=8)
    )


def test_page_and_command_line_say_the_same(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ServeProcess(data_dir, "--port", "0") as server:
        access = server.start()
        feed(access)
        answer = access.get("/compare", a="run-a", b="run-b")
        code, out, _ = printed(capsys, "compare", "run-a", "run-b", "--json")
        assert (code, json.loads(out)) == (0, answer)
        assert answer["judgement"] == "better"
        assert answer["title"].startswith("B is 6")
        assert [(each["what"], each["a"], each["b"]) for each in answer["settings"]] == [
            ("num_workers", "2", "8")
        ]
        with access.client() as client:
            assert client.get("/api/v1/compare?a=run-a&b=nope").status_code == 404
            assert client.get("/api/v1/compare?a=run-a").status_code == 400
        assert main(["export", "run-b", str(tmp_path / "b.lwrec"), "--last", "3600"]) == 0
        capsys.readouterr()
        server.stop()

    code, out, _ = printed(capsys, "compare", "run-a", "run-b", "--json")
    assert (code, json.loads(out)["measures"]) == (0, answer["measures"]), "of the files, without a server"
    code, out, _ = printed(capsys, "compare", "run-a", str(tmp_path / "b.lwrec"), "--json")
    assert code == 0
    assert json.loads(out)["judgement"] == "better"
