"""A callback for the Trainer of transformers, which shows the progress of its loop.

    from loaderwatch.frameworks.transformers import LoaderwatchCallback

    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[LoaderwatchCallback()])
    trainer.train()

Tested with transformers 5.
"""

from __future__ import annotations

from typing import Any, Final

import transformers

from loaderwatch.frameworks.callback_base import Teller

PARTS: Final = (("should_log", "logging"), ("should_evaluate", "evaluation"), ("should_save", "checkpoint"))
"""The Trainer's work between two steps, in its order: the switch in its control, and the part's name."""


class LoaderwatchCallback(transformers.TrainerCallback):
    """A callback that attaches to every loader and shows epoch and global step.

    It also shows logging, evaluation and checkpoints as parts of the loop.
    """

    def __init__(self) -> None:
        self._teller = Teller("Transformers", transformers.__version__)

    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Attach when the Trainer is created, because it may only evaluate."""
        self._teller.attach()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Attach again: the Trainer may have got the callback after its creation."""
        self._teller.attach()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the open parts, and report the new epoch."""
        self._teller.leave_all()
        self._tell("train", args, state)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the parts between the steps."""
        self._teller.leave_all()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin the part before the next step, by the control's switches."""
        self._begin_next(args, state, control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin the part after the epoch, by the control's switches."""
        self._begin_next(args, state, control)

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the logging and begin the next part; an evaluation, which logs as well, continues."""
        if self._teller.is_in("logging"):
            self._teller.leave("logging")
            self._begin_next(args, state, control)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin an evaluation at its first batch: no other event reports one that the user starts."""
        if not self._teller.is_in("evaluation"):
            self._teller.leave_all()
            self._begin("evaluation", args, state)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the evaluation."""
        self._end_evaluation(args, state, control)

    def on_predict(self, args: Any, state: Any, control: Any, metrics: Any, **kwargs: Any) -> None:
        """End ``trainer.predict``, which counts as an evaluation."""
        self._end_evaluation(args, state, control)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the checkpoint."""
        self._teller.leave("checkpoint")

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End every part of the loop, and report that the training is over."""
        self._teller.leave_all()
        self._tell(None, args, state)

    def _begin_next(self, args: Any, state: Any, control: Any) -> None:
        for switch, part in PARTS:
            if getattr(control, switch, False):
                self._begin(part, args, state)
                return

    def _begin(self, part: str, args: Any, state: Any) -> None:
        self._teller.enter(part)
        if part == "evaluation":
            self._tell("validate", args, state)

    def _end_evaluation(self, args: Any, state: Any, control: Any) -> None:
        if not self._teller.is_in("evaluation"):
            return
        self._teller.leave("evaluation")
        going = 0 < getattr(state, "global_step", 0) < getattr(state, "max_steps", 0)
        self._tell("train" if going else None, args, state)
        self._begin_next(args, state, control)

    def _tell(self, stage: str | None, args: Any, state: Any) -> None:
        self._teller.tell(
            stage,
            lambda: {
                "epoch": int(state.epoch or 0),
                "max_epochs": int(args.num_train_epochs) if args.max_steps <= 0 else None,
                "global_step": int(state.global_step),
            },
        )
