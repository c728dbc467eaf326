"""Real shortages, before and after: memory, /dev/shm, descriptors; and workers that cannot start."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.scenarios.cases import SMALL_SHM, Case, in_group
from tests.scenarios.play import Outcome, play
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def can_mount() -> bool:
    """Whether a /dev/shm of one's own can be had."""
    if shutil.which("unshare") is None or not hasattr(os, "geteuid") or os.geteuid():
        return False
    return (
        subprocess.run([*SMALL_SHM, "true"], check=False, capture_output=True, timeout=PATIENCE_S).returncode
        == 0
    )


MOUNTS = can_mount()
CASES = tuple(
    case
    for case in in_group("resources")
    if case.scenarios  # the look-alikes are played in the bench
    and (MOUNTS or "unshare" not in case.before)
    and ("prlimit" not in case.before or shutil.which("prlimit") is not None)
)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All scripts, played."""
    return play(CASES, tmp_path_factory.mktemp("scenarios"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_it_is_named_and_nothing_else(outcomes: dict[str, Outcome], case: Case) -> None:
    outcome = outcomes[case.id]
    finding = outcome.found()
    text = " ".join((finding["title"], finding["cause"], finding["advice"]))
    for words in outcome.case.says:
        assert words in text, outcome.report()
