"""Stand-ins for loaderwatch that separate its cost from the cost of calling it: empty hooks or events."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any, Final

from benchmarks.steps import ReadyIterator, Training
from loaderwatch.agent.hot.layout import LOOK_EVERY
from loaderwatch.demo.virtual_gpu import VirtualGpu

SEAMS: Final = 5
"""Events per closely timed step: after forward, and around backward and the optimizer."""


def hook_nothing(training: Training) -> None:
    """Functions that do nothing in all the places where loaderwatch has its own."""
    from torch.autograd import Variable

    from loaderwatch.agent.hot import PhaseClock

    class EmptyIterator(ReadyIterator):
        def __next__(self) -> Any:
            return ReadyIterator.__next__(self)

    # Compiled, like our hooks. No optimizer step has begun, so it returns None at once for any argument.
    nothing: Any = PhaseClock(None, None, None, None, None).optimizer_ended  # type: ignore[arg-type]

    def gradient_came(_: Any) -> None:
        queue_callback(nothing)

    queue_callback = Variable._execution_engine.queue_callback
    training.loader.iterator_class = EmptyIterator
    *_, last = training.model.parameters()
    last.register_post_accumulate_grad_hook(gradient_came)  # type: ignore[no-untyped-call]
    # What PyTorch calls in place of a model's own call; one that runs no code of Python, as ours.
    vars(training.model)["_compiled_call_impl"] = partial(training.model._call_impl)
    training.optimizer.register_step_pre_hook(nothing)
    training.optimizer.register_step_post_hook(nothing)


def record_events(training: Training, gpu: VirtualGpu, *, with_seams: bool) -> None:
    """Use as many CUDA events as our device clock, and nothing else of ours.

    For each batch: record two events, query one and read two times. With the seams of a model's step, each
    closely timed step records and reads five more.
    """

    class EventIterator(ReadyIterator):
        def __next__(self) -> Any:
            requested, delivered = events
            if requested.query():  # always: this device has nothing to do
                requested.elapsed_time(delivered)
                delivered.elapsed_time(requested)
            if with_seams and not next(numbers) % LOOK_EVERY:
                for _ in range(SEAMS):
                    delivered.record()
                    requested.elapsed_time(delivered)
            requested.record()
            batch = ReadyIterator.__next__(self)
            delivered.record()
            return batch

    numbers = itertools.count()
    events = gpu.event(enable_timing=True), gpu.event(enable_timing=True)
    for event in events:
        event.record()
    training.loader.iterator_class = EventIterator
