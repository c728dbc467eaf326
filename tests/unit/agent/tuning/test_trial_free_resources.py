"""What a trial might run out of is found before it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from loaderwatch.agent.tuning import trial
from loaderwatch.agent.tuning.search import Setting
from loaderwatch.agent.tuning.trial import why_no_room
from loaderwatch.core.facts import LoaderTrial
from loaderwatch.core.system import free_memory_bytes
from loaderwatch.texts import say


def last(**more: int) -> LoaderTrial:
    return LoaderTrial(num_workers=2, prefetch_factor=2, batches=9, batches_per_s=1.0, start_s=0.1, **more)


def test_there_is_room_for_little() -> None:
    assert why_no_room(Setting(4), last(worker_bytes=20_000_000, batch_bytes=1000)) is None
    assert why_no_room(Setting(4), None) is None


def test_memory() -> None:
    """Two workers take a third of what is free; four would take more than half."""
    free = free_memory_bytes()
    found = why_no_room(Setting(4), last(worker_bytes=free // 3))
    assert found is not None
    assert say(found).startswith("4 workers would take")
    assert say(found).endswith("GB of free memory")


def test_shared_memory() -> None:
    found = why_no_room(Setting(4, 8), last(batch_bytes=2**40))
    assert found is not None
    assert "4 workers with prefetch_factor=8 would hold" in say(found)


def test_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "descriptor_limit", lambda: 64)
    assert why_no_room(Setting(4), last()) is None
    found = why_no_room(Setting(16), last())
    assert found is not None
    assert say(found) == "16 workers would take most of the 64 files that this process may open"


def test_a_container_has_less(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("1000\n")
    (group / "memory.current").write_text("400\n")
    assert free_memory_bytes(tmp_path) == 600
    (group / "memory.max").write_text("max\n")
    assert free_memory_bytes(tmp_path) > 1000
