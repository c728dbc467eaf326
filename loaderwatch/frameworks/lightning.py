"""A callback for Lightning, which shows the progress of its loop.

    from loaderwatch.frameworks.lightning import LoaderwatchCallback

    trainer = Trainer(max_epochs=10, callbacks=[LoaderwatchCallback()])
    trainer.fit(module, train_loader, val_loader)

Tested with Lightning 2.6; ``import pytorch_lightning`` works as well.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from loaderwatch.frameworks.callback_base import Teller

if TYPE_CHECKING or "pytorch_lightning" not in sys.modules or "lightning.pytorch" in sys.modules:
    import lightning.pytorch as pl
else:
    import pytorch_lightning as pl


class LoaderwatchCallback(pl.Callback):
    """A callback that attaches to every loader and shows stage, epoch and global step.

    It also shows sanity check, validation, checkpoints and logging as parts of the loop.
    """

    def __init__(self) -> None:
        super().__init__()
        self._teller = Teller("Lightning", getattr(pl, "__version__", ""))

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Attach, on each rank before the first loader is iterated."""
        self._teller.attach()
        self._teller.time(trainer, "save_checkpoint", "checkpoint")
        for logger in getattr(trainer, "loggers", ()):
            self._teller.time(logger, "log_metrics", "logging")

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Restore the trainer and its loggers, and report that no stage is open."""
        self._teller.leave_all()
        self._teller.restore()
        self._tell(None, trainer)

    def on_sanity_check_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin the sanity check: some validation batches before training."""
        self._teller.enter("sanity check")
        self._tell("sanity check", trainer)

    def on_sanity_check_end(self, trainer: Any, pl_module: Any) -> None:
        """End the sanity check."""
        self._teller.leave("sanity check")

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Report the new epoch."""
        self._tell("train", trainer)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin a validation, inside an epoch or by itself; a sanity check includes its validation."""
        if not self._teller.is_in("sanity check"):
            self._teller.enter("validation")
            self._tell("validate", trainer)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """End the validation; inside an epoch, training continues."""
        if self._teller.is_in("validation"):
            self._teller.leave("validation")
            fitting = getattr(getattr(trainer, "state", None), "fn", None) == "fit"
            self._tell("train" if fitting else None, trainer)

    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin ``trainer.test``."""
        self._teller.enter("test")
        self._tell("test", trainer)

    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        """End ``trainer.test``."""
        self._teller.leave("test")

    def on_predict_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin ``trainer.predict``."""
        self._teller.enter("prediction")
        self._tell("predict", trainer)

    def on_predict_end(self, trainer: Any, pl_module: Any) -> None:
        """End ``trainer.predict``."""
        self._teller.leave("prediction")

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End every part of the loop, because the training failed, and restore the trainer."""
        self._teller.leave_all()
        self._teller.restore()

    def _tell(self, stage: str | None, trainer: Any) -> None:
        self._teller.tell(
            stage,
            lambda: {
                "epoch": int(trainer.current_epoch),
                "max_epochs": int(trainer.max_epochs) if (trainer.max_epochs or -1) > 0 else None,
                "global_step": int(trainer.global_step),
            },
        )
