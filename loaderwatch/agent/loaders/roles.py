"""Corrects guessed roles: an "eval" loader trains if an optimizer steps with its batches.

A second loader that is not shuffled usually evaluates. Gradients may be enabled when its pass begins: a
Trainer disables them per batch. It may also train: unlabelled data in a ``zip``, a curriculum, another phase.
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
"""Batches of one pass with which an optimizer must step: a single one may remain from an evaluation."""
PATIENCE: Final = 1000
"""Optimizer steps without this loader's batches after which a guess is final and the hook is removed."""
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
    """Call ``correct`` once if an optimizer steps with batches of this loader, guessed as "eval"."""
    global _handle
    _doubts.append(_Doubt(watch, recorder, correct))
    del _doubts[:-MOST_DOUBTS]
    if _handle is None:
        _handle = ask(lambda: torch_optimizer.register_optimizer_step_post_hook(_stepped))


def forget() -> None:
    """Drop all doubts and remove the hook."""
    global _handle
    _doubts.clear()
    if _handle is not None:
        _handle.remove()
        _handle = None


def _look() -> None:
    for guess in list(_doubts):
        epoch: Any = next(
            (p for p in guess.recorder.together if getattr(p, "watch", None) is guess.watch), None
        )
        if epoch is None:
            guess.steps_elsewhere += 1
            if guess.steps_elsewhere >= PATIENCE:
                _doubts.remove(guess)
            continue
        if epoch.number != guess.epoch:
            guess.epoch = epoch.number
            guess.batches.clear()
        guess.batches.add(epoch.batch)
        if len(guess.batches) >= FEW_BATCHES:
            _doubts.remove(guess)
            guess.correct()
    if not _doubts:
        forget()


_shielded: Final = shield(_look)


def _stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
    _shielded()
