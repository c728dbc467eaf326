"""The seam: our faults are swallowed and counted, the user's errors are not touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from torch.utils.data import DataLoader

import loaderwatch
from loaderwatch import texts
from loaderwatch.agent.guard import TRIP_AFTER, ask, guard, in_english, in_own_language, shield
from loaderwatch.core.message import Text
from tests.conftest import RingFolder
from tests.waiting import PATIENCE_S


def boom(*_: object, **__: object) -> int:
    raise RuntimeError("boom")


def test_shield_swallows_and_counts() -> None:
    assert shield(boom)() is None
    assert shield(lambda: 3)() == 3
    assert guard.faults == 1
    (fault,) = guard.reset()
    assert str(fault) == "boom"
    assert guard.faults == 0


def test_a_fault_is_kept_without_its_frames() -> None:
    """They hold the batch and the iterator, and so its workers and their shared memory."""

    class Batch:
        """Something that can be referred to weakly."""

    def failing() -> weakref.ref[Batch]:
        batch = Batch()
        shield(lambda: boom(batch))()
        return weakref.ref(batch)

    gone = failing()
    assert gone() is None
    (fault,) = guard.reset()
    assert fault.__traceback__ is None


def test_what_a_signal_handler_raises_is_the_users() -> None:
    """An alarm, or the death of a worker, may come in the middle of our lines."""

    class Late(Exception):
        """What the handler raises."""

    def late(number: int, frame: object) -> None:
        raise Late

    before = signal.signal(signal.SIGUSR2, late)
    try:
        with pytest.raises(Late):
            shield(lambda: os.kill(os.getpid(), signal.SIGUSR2))()
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert guard.reset() == []


def test_shield_lets_the_user_interrupt() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shield(interrupted)()


def test_ask_is_no_fault_of_ours() -> None:
    assert ask(boom) is None
    assert guard.reset() == []


@pytest.mark.usefixtures("no_streamer")
def test_hooks_step_aside_when_they_keep_failing(
    rings: RingFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loader: DataLoader[Any] = DataLoader(list(range(40)), batch_size=2)  # type: ignore[arg-type]
    plain = [batch.tolist() for batch in loader]
    loaderwatch.attach(loader)
    monkeypatch.setattr("loaderwatch.agent.loaders.iterator.nothing_to_read", boom)

    def batches() -> Iterator[list[int]]:
        for batch in loader:
            yield batch.tolist()

    assert list(batches()) == plain
    assert type(loader) is DataLoader
    assert list(batches()) == plain
    assert len(guard.reset()) >= TRIP_AFTER
    status = rings.main().status
    assert (status.tripped, status.faults) == (True, TRIP_AFTER)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "stepped aside after 5 faults of its own; training goes on unwatched" in said


@pytest.mark.usefixtures("data_dir", "no_streamer")
def test_a_fault_while_attaching_does_not_reach_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Said, since nothing else would tell why there is no page; what the user got wrong is still raised."""
    loader: DataLoader[Any] = DataLoader(list(range(4)), batch_size=2)  # type: ignore[arg-type]
    monkeypatch.setattr("loaderwatch.agent.session.find_ranks", boom)
    assert loaderwatch.attach(loader) is loader
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]
    assert len(guard.reset()) == 1
    assert "cannot watch this run, for a fault of its own" in capsys.readouterr().err
    monkeypatch.setenv("LOADERWATCH_RUN", "///")
    with pytest.raises(ValueError, match="'///'"):
        loaderwatch.attach(loader)


def test_lines_are_in_the_language_of_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADERWATCH_LANGUAGE", "en")
    english = "cannot tune this loader, which is not watched; see the line before"
    assert in_own_language("loader-not-tuned") == english
    monkeypatch.setenv("LOADERWATCH_LANGUAGE", "zh")
    assert in_own_language("loader-not-tuned").startswith("无法调优")
    assert in_english(Text("loader-not-tuned")) == english


def test_a_line_that_cannot_be_said_is_its_id_and_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "say", boom)
    shown = in_own_language("limit-of-unwatched-run", option="sample_timeout=60")
    assert shown == "limit-of-unwatched-run {'option': 'sample_timeout=60'}"
    assert guard.faults == 0  # it is no reason to remove the hooks
    (fault,) = guard.reset()
    assert str(fault) == "boom"


def test_what_a_signal_handler_raises_while_a_line_is_made_reaches_the_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def handler(*_: object) -> None:
        raise TimeoutError("the user's")

    previous = signal.signal(signal.SIGUSR1, handler)
    try:
        monkeypatch.setattr(texts, "say", lambda *_: signal.raise_signal(signal.SIGUSR1))
        with pytest.raises(TimeoutError, match="the user's"):
            in_own_language("loader-not-tuned")
    finally:
        signal.signal(signal.SIGUSR1, previous)


CHILD = """
import os, sys
import loaderwatch.agent.attach, loaderwatch.agent.workers.probe
from loaderwatch.agent.guard import in_own_language, say
loaded = [name for name in sys.modules if name.split(".")[0] == "fluent" or "loaderwatch.texts" in name]
assert not loaded, loaded
child = os.fork()
say(in_own_language("loader-not-tuned"))
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_catalogue_is_loaded_by_the_first_line_also_after_a_fork() -> None:
    environ = {**os.environ, "LOADERWATCH_LANGUAGE": "zh", "PYTHONUTF8": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", CHILD],
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=True,
        env=environ,
    )
    assert ran.stderr.count("loaderwatch: 无法调优") == 2
