"""Fault tests: a seed for every one, and a cluster of real processes."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.cluster import Cluster
from tests.faults.mounts import Mounts, own_mounts

HANGS_S = 900  # more than the waits of any test, one after the other, take on a busy machine

if not Path("/proc/locks").exists():
    collect_ignore_glob = ["test_*.py"]  # they are distinguished by what Linux says of processes and locks


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A hanging test fails alone, by a signal, and its processes end. Other suites' timeout ends pytest."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(HANGS_S, method="signal"))


@pytest.fixture
def dice(request: pytest.FixtureRequest) -> random.Random:
    """What chooses moments and victims: printed, and repeated with FAULTS_SEED."""
    seed = os.environ.get("FAULTS_SEED") or str(random.SystemRandom().randrange(10**6))
    print(f"to repeat: FAULTS_SEED={seed} pytest {request.node.nodeid}")
    return random.Random(f"{seed} {request.node.nodeid}")


@pytest.fixture
def cluster(tmp_path: Path, dice: random.Random) -> Iterator[Cluster]:
    """A server and a host, nothing started yet; all processes end with the test."""
    with Cluster(tmp_path, dice) as it:
        yield it


@pytest.fixture
def mounts() -> Iterator[Mounts]:
    """Small and read-only file systems that only this test sees. Ask for it before ``cluster``."""
    with own_mounts() as it:
        yield it
