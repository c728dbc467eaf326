"""Roles that were guessed: what shows later that a guess was wrong.

A second loader that is not shuffled most often evaluates, also where gradients are enabled as it is iterated (a Trainer switches
them off for each batch). But it may as well train: unlabelled data in a ``zip``, a curriculum, another phase. An optimizer
that steps with its batches tells: then it trains, and is described so from there on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from torch.optim import optimizer as torch_optimizer

from loaderwatch.agent.guard import ask, shield
from loaderwatch.agent.loaders.watch import Watch
from loaderwatch.agent.recorder import Recorder

FEW_BATCHES: Final = 3
"""Batches of one pass with which an optimizer must have stepped: one may have been left over from an evaluation."""
PATIENCE: Final = 1000
"""Steps of optimizers after which a guess stands, if none was with its batches; then nothing is hooked any more."""
MOST_DOUBTS: Final = 8


@dataclass
class _Doubt:
    watch: Watch
    recorder: Recorder
    correct: Callable[[], None]
    epoch: int = -1
    batches: set[int] = field(default_factory=set)
    steps_elsewhere: int = 0


_doubts: Final[list[_Doubt]] = []
_handle: Any = None


def doubt(watch: Watch, recorder: Recorder, correct: Callable[[], None]) -> None:
    """Call ``correct`` once if an optimizer steps with the batches of this loader, which was taken for one that evaluates."""
    global _handle
    _doubts.append(_Doubt(watch, recorder, correct))
    del _doubts[:-MOST_DOUBTS]
    if _handle is None:
        _handle = ask(lambda: torch_optimizer.register_optimizer_step_post_hook(_stepped))


def forget() -> None:
    """Take the hook out."""
    global _handle
    _doubts.clear()
    if _handle is not None:
        _handle.remove()
        _handle = None


def _look() -> None:
    for one in list(_doubts):
        taken: Any = next((p for p in one.recorder.together if getattr(p, "watch", None) is one.watch), None)
        if taken is None:
            one.steps_elsewhere += 1
            if one.steps_elsewhere >= PATIENCE:
                _doubts.remove(one)
            continue
        if taken.number != one.epoch:
            one.epoch = taken.number
            one.batches.clear()
        one.batches.add(taken.batch)
        if len(one.batches) >= FEW_BATCHES:
            _doubts.remove(one)
            one.correct()
    if not _doubts:
        forget()


_shielded: Final = shield(_look)


def _stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
    _shielded()
