"""The recorder: what this training process has counted so far, and what it is doing now."""

from __future__ import annotations

import threading
from typing import Final, Protocol

from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.records import UNKNOWN, Phase
from loaderwatch.core.ring import RingWriter

_STEP: Final = int(Phase.STEP)


class OpenStep(Protocol):
    """A batch that was delivered and whose step has not ended."""

    delivered_ns: int
    loader: int
    number: int
    batch: int

    def step(self) -> int:
        """The step's number."""


class OpenPhase(Protocol):
    """A ``loaderwatch.phase`` that was entered and not left."""

    name: int
    since_ns: int


class Recorder:
    """The ring of a training process and the totals over all its loaders.

    Written by the training thread; iterators that run in other threads write too, under the GIL.
    """

    __slots__ = (
        "batches",
        "capacity",
        "counts_optimizer",
        "depth",
        "memory",
        "numbers",
        "open_phases",
        "open_steps",
        "ring",
        "span",
        "steps",
        "thread",
        "versions",
        "waited_ns",
    )

    def __init__(self, ring: RingWriter) -> None:
        self.ring = ring
        self.span = ring.set_span
        self.memory = ring.memory
        self.capacity = ring.capacity
        self.numbers = ring.numbers
        self.versions = ring.versions
        self.thread = threading.get_ident()
        self.batches = 0  # delivered, all loaders
        self.steps = 0  # optimizer steps if an optimizer is watched, else steps that ended
        self.counts_optimizer = False
        self.depth = 0  # next() calls of watched loaders that the training thread is inside of
        self.waited_ns = 0  # spent in them, outermost only
        self.open_steps: list[OpenStep] = []
        self.open_phases: list[OpenPhase] = []

    def mute(self) -> None:
        """Write nowhere from now on: this is a forked child, and the ring is the parent's."""
        self.ring.mute()
        self.memory = self.ring.memory

    def publish_outer(self, now: int) -> None:
        """Something inside ended: say what goes on around it since when."""
        if self.open_steps and not self.open_phases:
            innermost = self.open_steps[-1]
            if innermost.delivered_ns:  # the usual case, after each phase of a step
                self.span(
                    _STEP,
                    innermost.delivered_ns,
                    innermost.loader,
                    innermost.number,
                    innermost.batch,
                    innermost.step(),
                    UNKNOWN,
                    UNKNOWN,
                    UNKNOWN,
                    self.batches,
                    self.steps,
                )
                return
        if self.open_phases:
            phase = self.open_phases[-1]
            self.span(
                Phase.USER,
                phase.since_ns,
                batches=self.batches,
                steps=self.steps,
                phase_name=phase.name,
            )
            return
        for epoch in reversed(self.open_steps):
            if epoch.delivered_ns:
                self.span(
                    Phase.STEP,
                    epoch.delivered_ns,
                    epoch.loader,
                    epoch.number,
                    epoch.batch,
                    epoch.step(),
                    batches=self.batches,
                    steps=self.steps,
                )
                return
        self.span(Phase.OUTSIDE, now, batches=self.batches, steps=self.steps)

    def publish_inner(self, phase: int) -> int:
        """A phase of a step begins; returns the time."""
        now = monotonic_ns()
        loader = epoch = batch = step = UNKNOWN
        if self.open_steps:
            open_step = self.open_steps[-1]
            loader, epoch, batch, step = (
                open_step.loader,
                open_step.number,
                open_step.batch,
                open_step.step(),
            )
        self.span(
            phase,
            now,
            loader,
            epoch,
            batch,
            step,
            UNKNOWN,
            UNKNOWN,
            UNKNOWN,
            self.batches,
            self.steps,
        )
        return now
