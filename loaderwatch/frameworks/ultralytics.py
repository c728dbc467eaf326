"""Callbacks for ultralytics, which show the progress of its loop.

    from ultralytics import YOLO
    from loaderwatch.frameworks.ultralytics import add_callbacks

    model = add_callbacks(YOLO("yolo11n.pt"))
    model.train(data="coco8.yaml", epochs=10)

With several GPUs, ultralytics starts one process for each, without the script's callbacks: run the script
under ``loaderwatch run`` then. Written for the events of ultralytics 8.
"""

from __future__ import annotations

import importlib
from typing import Any, TypeVar

from loaderwatch.agent.guard import ask
from loaderwatch.frameworks.callback_base import Teller

M = TypeVar("M")


def add_callbacks(model: M) -> M:
    """Attach to every loader; show a model's (or trainer's) epochs, validation and checkpoints; return it."""
    version = ask(lambda: importlib.import_module("ultralytics").__version__)
    shown = _Shown(Teller("Ultralytics", version or ""))
    for event in (name for name in vars(_Shown) if name.startswith("on_")):
        model.add_callback(event, getattr(shown, event))  # type: ignore[attr-defined]
    return model


class _Shown:
    """The callbacks: one method for each event that we use, in order of time."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._trainer: Any = None

    def on_pretrain_routine_start(self, trainer: Any) -> None:
        """Attach before the loaders are made."""
        self._teller.attach()

    def on_train_epoch_start(self, trainer: Any) -> None:
        """End the open parts, and report the new epoch."""
        self._trainer = trainer
        self._teller.leave_all()
        self._tell("train")

    def on_val_start(self, validator: Any) -> None:
        """Begin a validation, after an epoch or by itself."""
        self._teller.attach()
        self._teller.enter("validation")
        self._tell("validate")

    def on_val_end(self, validator: Any) -> None:
        """End the validation; after an epoch, the checkpoint comes next."""
        self._teller.leave("validation")
        if self._trainer is not None:
            self._teller.enter("checkpoint")

    def on_model_save(self, trainer: Any) -> None:
        """End the checkpoint."""
        self._teller.leave("checkpoint")

    def on_fit_epoch_end(self, trainer: Any) -> None:
        """End every part of the epoch."""
        self._teller.leave_all()

    def on_predict_start(self, predictor: Any) -> None:
        """Attach and report that a prediction begins."""
        self._teller.attach()
        self._tell("predict")

    def on_train_end(self, trainer: Any) -> None:
        """End every part of the loop, and report that the training is over."""
        self._teller.leave_all()
        self._tell(None)
        self._trainer = None

    def _tell(self, stage: str | None) -> None:
        trainer = self._trainer
        if trainer is None:
            self._teller.tell(stage)
        else:
            self._teller.tell(stage, lambda: {"epoch": int(trainer.epoch), "max_epochs": int(trainer.epochs)})
