"""Three real stalls in Lightning, Trainer and timm, named right live and by ``analyze``; an idle notebook."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.serving import Access
from tests.frameworks.environments import STREAMS, missing
from tests.frameworks.stalls.cases import CASES, ENVIRONMENTS, IDLE_NOTEBOOK, PACKAGES
from tests.scenarios.judge import judge
from tests.scenarios.play import HANG_AFTER_S, play_one, serve

pytestmark = pytest.mark.timeout(300)

SETTLE_S = 3.0
"""How long it goes on when it was told: a recording that ends in that moment may end before it."""
QUICK = frozenset((("lightning", "file"),))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Access, Path]]:
    """A real server, and its folder."""
    folder = tmp_path_factory.mktemp("stalls")
    with serve(folder) as access:
        yield access, folder


@pytest.mark.parametrize(
    ("framework", "stall"),
    [pytest.param(*key, marks=[] if key in QUICK else [pytest.mark.long]) for key in CASES],
)
def test_named_live_and_by_analyze(framework: str, stall: str, server: tuple[Access, Path]) -> None:
    why_not = missing(ENVIRONMENTS[framework], (PACKAGES[framework],))
    if why_not:
        pytest.skip(why_not)
    case = CASES[framework, stall]
    access, folder = server
    outcome = play_one(case, access, folder / case.id, settle_s=SETTLE_S)
    finding = outcome.found()
    judgement = judge(case, outcome.findings)
    assert judgement.exact, (judgement.wrong, outcome.report())
    if stall == "file":
        check_blocked_file(framework, finding)
    again = judge(case, analyzed(access, case.id.replace("_", "-"), folder))
    assert again.exact, (again.wrong, again.got)


def test_an_idle_notebook_wakes_nobody(server: tuple[Access, Path]) -> None:
    why_not = missing(STREAMS, ("nbclient", "ipykernel"))
    if why_not:
        pytest.skip(why_not)
    access, folder = server
    outcome = play_one(IDLE_NOTEBOOK, access, folder / IDLE_NOTEBOOK.id)
    assert not outcome.alerts, outcome.report()
    assert outcome.exit_code == 0, outcome.report()
    assert outcome.verdicts, outcome.report()


def check_blocked_file(framework: str, finding: dict[str, Any]) -> None:
    """The sample is named, its worker, and the line that opens its file: timm's own, or the dataset's."""
    assert finding["sample_indices"] == [333]  # of timm's, too: blocked.png comes after a's 333 others
    assert finding["worker"] in (0, 1)
    (stack,) = (stack for stack in finding["stacks"] if stack["worker"] == finding["worker"])
    assert ("timm/data" if framework == "timm" else "culprits.py") in stack["text"]


def analyzed(access: Access, run_id: str, folder: Path) -> list[dict[str, Any]]:
    """What the command finds in the run's recording, away from the server."""
    file = folder / f"{run_id}.lwrec"
    with access.client() as client:
        answer = client.get(f"/api/v1/runs/{run_id}/recording", params={"last": 3600})
    file.write_bytes(answer.raise_for_status().content)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "loaderwatch",
            "analyze",
            "--json",
            "--hang-after",
            str(HANG_AFTER_S),
            str(file),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found
