"""The limit on a sample's time, ``attach(loader, sample_timeout=…)``, and its effect on late samples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from loaderwatch.agent.guard import in_own_language, say
from loaderwatch.agent.process.printed_once import say_once
from loaderwatch.agent.workers.deadline import MOST_S, OWN_CODE, Deadline, Overrun, Signals
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.errors import SampleTimeout
from loaderwatch.core.records import Outcome, RecordKind
from loaderwatch.core.ring import RingWriter

NOTE_SUFFIX: Final = ".overrun"
MOST_SAID: Final = 10
"""How many left-out samples a process reports one by one; all of them are recorded."""
Read: TypeAlias = Literal["sample", "number", "call"]
"""How a sample was read: by its index, as the next one of an iterator, or with its batch in one call."""
_SKIP: Final = 'on_timeout="skip"'
LEFT_OUT: Final = object()
"""Placeholder for a sample that was left out, until its batch is collated."""


@dataclass(frozen=True)
class SampleLimit:
    """How long a sample of one loader may take, and what happens then. It is pickled to spawned workers."""

    seconds: float
    skip: bool
    loader: int
    name: str
    signals: Signals
    folder: str  # where workers note the current sample
    parent_pid: int

    @property
    def option(self) -> str:
        """The argument as the user wrote it."""
        return f"sample_timeout={self.seconds:g}"

    @property
    def ns(self) -> int:
        """The limit in nanoseconds."""
        return max(1, int(min(self.seconds, MOST_S) * 1e9))  # 0 would stop a timer

    def note_path(self, worker: int, pid: int) -> Path:
        """Return the file in which this worker notes the current sample."""
        return Path(self.folder) / f"worker-{self.parent_pid}-{self.loader}-{worker}-{pid}{NOTE_SUFFIX}"


@dataclass(frozen=True)
class EmptyBatch:
    """A worker's answer for a batch whose samples were all left out, so nothing could be collated."""

    samples: int


class SampleGuard:
    """Enforces the limit of one loader in one process.

    Args:
        limit: the limit.
        deadline: the timers of this process.
        worker: the worker's number, -1 in the training process.
        ring: where to record samples that took too long; None where this process is not recorded.
    """

    def __init__(self, limit: SampleLimit, deadline: Deadline, worker: int, ring: RingWriter | None) -> None:
        self.over = False  # the loader was detached
        self._limit = limit
        self._deadline = deadline
        self._limit_ns = limit.ns
        self._worker = worker
        self._ring = ring
        self._left_out = 0  # in the current batch
        self._said = 0
        self._warned = False

    @property
    def watches(self) -> bool:
        """Whether the next sample is watched: it must be on the main thread and not inside another sample."""
        if self.over:
            return False
        if self._deadline.is_here:
            return True
        if not self._warned and self._deadline.is_elsewhere:
            self._warned = True
            of = {"option": self._limit.option, "loader": self._limit.name}
            say_once(in_own_language("limit-needs-main-thread", **of))
        return False

    def begin(self, index: int) -> None:
        """Note that the reading of a sample begins."""
        self._deadline.begin(index, self._limit_ns)

    def end(self) -> None:
        """Note that the sample ended in time."""
        self._deadline.end()

    def took_too_long(self, error: BaseException) -> bool:
        """Whether the sample's error comes from the deadline, directly or from code that caught it."""
        late = isinstance(error, Overrun) or self._deadline.has_fired
        if not late:
            self._deadline.rest()
        return late

    def give_up(self, error: BaseException, read: Read, shown: str, index: int) -> Any:
        """Return the placeholder for a sample that took too long.

        Args:
            error: what interrupted it.
            read: how it was asked for.
            shown: its index or number, as people are told it.
            index: the same for the record; UNKNOWN where it is no number.

        Raises:
            SampleTimeout: such samples must not be left out.
        """
        limit, now = self._limit, monotonic_ns()
        began_ns = self._deadline.end()
        self._deadline.rest()
        outcome = Outcome.SKIPPED if limit.skip else Outcome.RAISED
        if self._ring is not None:
            record_timeout(self._ring, limit, self._worker, began_ns, now - began_ns, index, outcome)
        took_s = (now - began_ns) / 1e9
        stood = self._deadline.stood
        if not limit.skip:
            what = {"sample": f"sample {shown}", "number": f"sample number {shown}"}.get(read, shown)
            raise SampleTimeout(
                f"{what} of {limit.name} took {took_s:.1f} s in"
                f" {'the training process' if self._worker < 0 else f'worker {self._worker}'}, longer than"
                f" {limit.option}. It stood at "
                + (stood if stood != OWN_CODE else "the dataset's own code")
                + ". Look at what it waits for there, raise sample_timeout, or leave such samples out"
                f" with {_SKIP}"
            ).with_traceback(error.__traceback__) from None
        self._left_out += 1
        self._said += 1
        if self._said <= MOST_SAID:
            say(
                in_own_language(
                    "sample-left-out",
                    read=read,
                    index=shown,
                    loader=limit.name,
                    took_s=took_s,
                    worker=None if self._worker < 0 else self._worker,
                    option=limit.option,
                    stood=stood,
                    last=self._said == MOST_SAID,
                )
            )
        return LEFT_OUT

    def begin_collate(self) -> int:
        """Note that all samples of a batch are read; return how many were left out."""
        self._deadline.rest()
        left_out, self._left_out = self._left_out, 0
        return left_out


def record_timeout(
    ring: RingWriter,
    limit: SampleLimit,
    worker: int,
    began_ns: int,
    took_ns: int,
    index: int,
    outcome: Outcome,
) -> None:
    """Record a sample that took too long."""
    ring.append(
        RecordKind.SAMPLE_TIMEOUT,
        loader=limit.loader,
        worker=worker,
        request_ns=began_ns,
        duration_ns=took_ns,
        limit_ns=limit.ns,
        index=index,
        outcome=outcome,
    )
