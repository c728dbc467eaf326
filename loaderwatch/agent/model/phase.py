"""``loaderwatch.phase``, with which the user names a part of the loop."""

from __future__ import annotations

import sys
import threading
from contextlib import ContextDecorator
from types import TracebackType
from typing import TYPE_CHECKING

from loaderwatch.agent.guard import guard, shield
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.records import RecordKind

if TYPE_CHECKING:
    from loaderwatch.agent.session import Session


def current_session() -> Session | None:
    """Return this process's session. None, without importing torch, if nothing was ever attached."""
    module = sys.modules.get("loaderwatch.agent.session")
    session: Session | None = module.current_session() if module is not None else None
    return session


class UserPhase(ContextDecorator):
    """A named part of the loop, as a context manager or a decorator. It may be nested and entered again."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"name is {name!r} ({type(name).__name__}); use a string such as 'checkpoint'")
        if not name.strip():
            raise ValueError(f"name is {name!r}; use a word such as 'checkpoint'")
        self._name = name
        self._open: list[OpenPhase | None] = []

    def __enter__(self) -> None:
        session = None if guard.tripped else current_session()
        self._open.append(_enter(session, self._name) if session is not None else None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        opened = self._open.pop()
        if opened is not None:
            _leave(opened)


class OpenPhase:
    """A phase that was entered and not left."""

    __slots__ = ("name", "on_training_thread", "session", "since_ns")

    def __init__(self, session: Session, name: str) -> None:
        self.session = session
        self.name = session.phase_name(name)
        self.since_ns = monotonic_ns()
        self.on_training_thread = threading.get_ident() == session.recorder.thread


@shield
def _enter(session: Session, name: str) -> OpenPhase:
    opened = OpenPhase(session, name)
    if opened.on_training_thread:
        session.recorder.enter_phase(opened)
    return opened


@shield
def _leave(opened: OpenPhase) -> None:
    if opened.session is not current_session():
        return  # the process was detached, or forked, inside the phase
    now = monotonic_ns()
    recorder = opened.session.recorder
    recorder.settle()
    recorder.ring.append(
        RecordKind.PHASE,
        name=opened.name,
        request_ns=opened.since_ns,
        duration_ns=now - opened.since_ns,
        step=recorder.steps,
    )
    recorder.leave_phase(opened, now)
