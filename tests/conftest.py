"""What every test may use: private directories, free ports, and a guard that hides nothing."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis
import msgspec
import pytest

from loaderwatch.core.config import load_settings
from loaderwatch.core.facts import ProcessInfo
from loaderwatch.core.records import RECORD_FIELDS, RecordKind
from loaderwatch.core.ring import RingReader, RingStatus
from loaderwatch.core.ring.span import OpenSpan
from tests.fakes.ports import next_free_port
from tests.fakes.streaming import end_processes

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell without job control starts "make test &" so, and every process of ours would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# A busy machine may take any time for an example, and the first one pays for what is imported.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")

gc.disable()  # during collection of the tests, which would walk the growing heap of torch again and again


def close_agent() -> None:
    """End the session that ``attach`` opened in this process, if any."""
    session = sys.modules.get("loaderwatch.agent.session")
    if session is not None:
        session.close_session()


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A private LOADERWATCH_DIR for this process and its children, whose shared memory ends with the test."""
    directory = tmp_path / "loaderwatch"
    monkeypatch.setenv("LOADERWATCH_DIR", str(directory))
    for name in (
        "LOADERWATCH_SERVER",
        "LOADERWATCH_TOKEN",
        "LOADERWATCH_RUN",
        "LOADERWATCH_DISABLE",
        "LOADERWATCH_REDACT",
        "LOADERWATCH_NOTIFY",
    ):
        monkeypatch.delenv(name, raising=False)
    rings = load_settings().rings_dir
    try:
        yield directory
    finally:
        close_agent()
        if directory.exists():
            end_processes(directory)
        shutil.rmtree(rings, ignore_errors=True)


@pytest.fixture
def no_streamer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attach without starting a streamer: for tests that read the rings themselves."""
    monkeypatch.setenv("LOADERWATCH_NO_STREAMER", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long first, so that no process is left with it at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """Exempt imported objects from garbage collection, which tests for leaks run often."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Libraries that count their objects at exit are to find them let go."""
    gc.unfreeze()


@pytest.fixture
def free_port() -> int:
    """See ``next_free_port``."""
    return next_free_port()


@pytest.fixture(autouse=True)
def environment_kept() -> Iterator[None]:
    """Fail a test that leaves our variables in this process, since every later script would inherit them.

    PyTorch sets some of its own, for example ``TORCHINDUCTOR_CACHE_DIR``.
    """
    before = dict(os.environ)
    yield
    left = {
        name
        for name in os.environ
        if name.startswith(("LOADERWATCH_", "PYTHON")) and before.get(name) != os.environ[name]
    }
    for name in left:
        del os.environ[name]
    os.environ.update(before)
    assert not left


@pytest.fixture(autouse=True)
def nothing_swallowed() -> Iterator[None]:
    """Fail on what the guard hid from the training loop, and leave no agent state to the next test.

    A test that provokes a fault on purpose takes it out with ``loaderwatch.agent.guard.guard.reset()``.
    """
    yield
    close_agent()
    guard = sys.modules.get("loaderwatch.agent.guard")
    if guard is not None:
        swallowed = guard.guard.reset()
        if swallowed:
            raise swallowed[0]


@dataclass(frozen=True)
class RingContents:
    """Everything one process wrote."""

    path: Path
    pid: int
    loader: int
    worker: int
    span: OpenSpan | None
    status: RingStatus
    records: dict[RecordKind, list[dict[str, int]]] = field(default_factory=dict)
    lost: int = 0

    def of(self, kind: RecordKind) -> list[dict[str, int]]:
        """Its records of one kind, by field name."""
        return self.records.get(kind, [])


@dataclass(frozen=True)
class RingFolder:
    """The shared memory of this test's data directory."""

    directory: Path

    def processes(self) -> list[ProcessInfo]:
        """The training processes of all runs."""
        return [
            msgspec.json.decode(path.read_bytes(), type=ProcessInfo)
            for path in sorted(self.directory.glob("*/main-*.json"))
        ]

    def mains(self) -> list[RingContents]:
        """What training processes wrote."""
        return [read_ring(path) for path in sorted(self.directory.glob("*/main-*.ring"))]

    def main(self) -> RingContents:
        """What the one training process wrote."""
        (contents,) = self.mains()
        return contents

    def workers(self) -> list[RingContents]:
        """What DataLoader workers wrote."""
        return [read_ring(path) for path in sorted(self.directory.glob("*/worker-*.ring"))]


def read_ring(path: Path) -> RingContents:
    """Everything in one ring."""
    reader = RingReader(path)
    drained = reader.drain(0, final=True)
    records = {
        kind: [dict(zip(RECORD_FIELDS[kind], row, strict=True)) for row in rows]
        for kind, rows in drained.records.items()
    }
    identity = reader.identity
    contents = RingContents(
        path,
        identity.pid,
        identity.loader,
        identity.worker,
        reader.span(),
        reader.status(),
        records,
        drained.lost,
    )
    reader.close()
    if identity.pid != os.getpid():  # what pytest's own process swallowed is seen by ``nothing_swallowed``
        assert not contents.status.faults, f"{path.name}: {contents.status.faults} faults of our own"
    return contents


@pytest.fixture
def rings(data_dir: Path) -> RingFolder:
    """Reads what the processes of this test wrote into shared memory."""
    return RingFolder(load_settings().rings_dir)
