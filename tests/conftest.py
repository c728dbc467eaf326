"""What every test may use: private directories, free ports, and a guard that hides nothing."""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loaderwatch.core.config import load_settings


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A private LOADERWATCH_DIR; this process and its children use it, and its shared memory is removed after."""
    directory = tmp_path / "loaderwatch"
    monkeypatch.setenv("LOADERWATCH_DIR", str(directory))
    for name in (
        "LOADERWATCH_SERVER",
        "LOADERWATCH_TOKEN",
        "LOADERWATCH_RUN",
        "LOADERWATCH_DISABLE",
    ):
        monkeypatch.delenv(name, raising=False)
    rings = load_settings().rings_dir
    try:
        yield directory
    finally:
        shutil.rmtree(rings, ignore_errors=True)


@pytest.fixture
def no_streamer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attach without starting a streamer: for tests that read the rings themselves."""
    monkeypatch.setenv("LOADERWATCH_NO_STREAMER", "1")


@pytest.fixture
def free_port() -> int:
    """A TCP port on 127.0.0.1 that was free a moment ago."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(autouse=True)
def nothing_swallowed() -> Iterator[None]:
    """Fail on what the guard hid from the training loop, and leave no agent state to the next test.

    A test that provokes a fault on purpose takes it out with ``loaderwatch.agent.guard.take_swallowed()``.
    """
    yield
    session = sys.modules.get("loaderwatch.agent.session")
    if session is not None:
        session.close_session()
    guard = sys.modules.get("loaderwatch.agent.guard")
    if guard is not None:
        swallowed = guard.take_swallowed()
        if swallowed:
            raise swallowed[0]
