"""Lightning with a stall: ``python -m tests.frameworks.stalls.lightning_stall transform|file|worker``."""

from __future__ import annotations

import time
from typing import Any

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader

from tests.frameworks.stalls import culprits

STALL = culprits.kind()


class Module(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(16, 1)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        time.sleep(culprits.step_s(STALL))
        return self.net(batch).square().mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    loader = DataLoader(
        culprits.dataset(STALL), batch_size=culprits.BATCH, num_workers=culprits.workers(STALL)
    )
    trainer = pl.Trainer(
        max_steps=1000,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Module(), loader)
