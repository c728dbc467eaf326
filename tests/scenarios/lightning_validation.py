"""S55 in Lightning: it validates inside every 25th training step, through a loader that is slow."""

import os
import time
import warnings

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, SlowDataset, sleep_read

STEP_S = 0.04
warnings.filterwarnings("ignore")


class Model(LightningModule):
    """A training step sleeps ``STEP_S``, one of the validation ten milliseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 1)
        self.until = time.monotonic() + (UNTIL_FOUND_S)

    def training_step(self, batch: Tensor, number: int) -> Tensor:
        time.sleep(STEP_S)
        if time.monotonic() > self.until:
            self.trainer.should_stop = True
        return self.layer(batch).mean()  # type: ignore[no-any-return]

    def validation_step(self, batch: Tensor, number: int) -> None:
        time.sleep(0.01)
        self.layer(batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1e-3)


train_loader = DataLoader(SlowDataset(3200), batch_size=8, num_workers=2, persistent_workers=True)
val_loader = DataLoader(SlowDataset(160, sleep_read(0.01)), batch_size=8, num_workers=0)
loaderwatch.attach(train_loader, name="train_loader")
loaderwatch.attach(val_loader, name="val_loader", role="eval")
Trainer(
    max_epochs=-1,
    val_check_interval=25,
    accelerator="cpu",
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    default_root_dir=os.environ["LOADERWATCH_DIR"],
).fit(Model(), train_loader, val_loader)
