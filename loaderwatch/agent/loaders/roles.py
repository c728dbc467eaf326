"""Correction of guessed roles: an optimizer that steps with the batches of an "eval" loader shows that it trains.

A second loader that is not shuffled most often evaluates, even where gradients are enabled when its pass begins (a Trainer
switches them off for each batch). But it may also train: unlabelled data in a ``zip``, a curriculum, another phase.
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
"""With how many batches of one pass an optimizer must step: a single one may be left over from an evaluation."""
PATIENCE: Final = 1000
"""After how many optimizer steps without this loader's batches a guess stands and the hook is taken out."""
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
    """Call ``correct`` once if an optimizer steps with the batches of this loader, whose role was guessed as "eval"."""
    global _handle
    _doubts.append(_Doubt(watch, recorder, correct))
    del _doubts[:-MOST_DOUBTS]
    if _handle is None:
        _handle = ask(lambda: torch_optimizer.register_optimizer_step_post_hook(_stepped))


def forget() -> None:
    """Drop all doubts and take the hook out."""
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
