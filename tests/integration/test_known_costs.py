"""Trainings with one known cost each: the cost is named where it is the fault, and only there."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from loaderwatch.detect.known_costs import KNOWN_COSTS
from loaderwatch.texts import say
from tests.fakes.serving import Access
from tests.fakes.streaming import Streaming
from tests.scenarios.known_costs import MAKERS
from tests.scenarios.play import ROOT, serve

pytestmark = [pytest.mark.long, pytest.mark.timeout(3000)]

SECONDS = 24
AT_ONCE = 3
FAULT, SIBLING = 0.75, 0.05
"""Shares of the fetch that the call takes: above each row's limit, and below."""
NEAR = 0.10
"""How far a sampled share may be from the truth."""
ROWS = {cost.id: cost for cost in KNOWN_COSTS}


@dataclass(frozen=True)
class Trained:
    """What a training was told, and the true share of its cost."""

    findings: list[dict[str, Any]]
    profile: dict[str, Any]
    truth: float

    @property
    def causes(self) -> str:
        return " ".join(finding["cause"] for finding in self.findings)

    @property
    def advice(self) -> str:
        return " ".join(finding["advice"] for finding in self.findings)


def train(name: str, share: float, access: Access, folder: Path) -> Trained:
    run_id = f"{name}-{share}".replace(".", "-")
    with Streaming(folder, access.url, run_id, LOADERWATCH_TOKEN=access.agent) as streaming:
        environ = {
            **streaming.environ,
            "LOADERWATCH_RUN": run_id,
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
        }
        module = [sys.executable, "-m", "tests.scenarios.known_costs"]
        arguments = [name, str(share), str(SECONDS), str(folder / "data")]
        done = subprocess.run(
            [*module, *arguments],
            env=environ,
            capture_output=True,
            text=True,
            timeout=SECONDS + 90,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        with access.client() as client:
            findings = client.get(f"/api/v1/runs/{run_id}/findings").json()
            profile = client.get(f"/api/v1/runs/{run_id}/profile").json()
    (truth,) = (folder / "data").glob("truth-*.txt")
    called_s, fetched_s = map(float, truth.read_text(encoding="utf-8").split())
    return Trained(findings, profile, called_s / fetched_s)


@pytest.fixture(scope="module")
def trainings(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[tuple[str, float], Future[Trained]]]:
    """The trainings of all selected tests, several at a time."""
    wanted = [
        (str(item.callspec.params["name"]), FAULT if "is_named" in item.name else SIBLING)
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module
    ]
    folder = tmp_path_factory.mktemp("trainings")
    with serve(folder) as access, ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            (name, share): pool.submit(train, name, share, access, folder / f"{name}-{share}")
            for name, share in wanted
        }


@pytest.mark.parametrize("name", MAKERS)
def test_a_known_cost_that_is_the_fault_is_named(
    name: str, trainings: dict[tuple[str, float], Future[Trained]]
) -> None:
    trained = trainings[name, FAULT].result()
    row = ROWS[name]
    assert trained.findings, "nothing was found"
    assert say(row.meaning) in trained.causes, trained.causes
    assert say(row.advice) in trained.advice
    lines = trained.profile["lines"]
    first = next(line for line in lines if line["function"] not in ("compute", "main"))
    source, begins = inspect.getsourcelines(MAKERS[name])
    assert begins <= first["line"] < begins + len(source), first
    assert f"known_costs.py:{first['line']}" in trained.causes
    # Between two fetches the loop waits as well, for the batch to be handed over.
    shares = {
        name: sum(line["share"] for line in lines if line["function"] == name) for name in ("compute", "main")
    }
    assert 1 - shares["compute"] / (1 - shares["main"]) == pytest.approx(trained.truth, abs=NEAR), lines


@pytest.mark.parametrize("name", MAKERS)
def test_the_same_call_with_a_small_share_is_not_blamed(
    name: str, trainings: dict[tuple[str, float], Future[Trained]]
) -> None:
    trained = trainings[name, SIBLING].result()
    assert trained.profile["samples"] >= 100
    assert say(ROWS[name].meaning) not in trained.causes
    assert trained.truth == pytest.approx(SIBLING, abs=0.02)
