"""Lightning: fit with a validation after each epoch, the sanity check before, and checkpoints."""

from __future__ import annotations

import lightning.pytorch as pl
import torch
from pictures import Pictures
from torch import nn
from torch.utils.data import DataLoader


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, pictures):
        return self.net(pictures)

    def training_step(self, batch, batch_idx):
        pictures, labels = batch
        loss = nn.functional.cross_entropy(self(pictures), labels)
        print(f"step {self.global_step}: loss {loss.item()!r}")
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        pictures, labels = batch
        self.log("val_loss", nn.functional.cross_entropy(self(pictures), labels))

    def on_validation_epoch_end(self):
        print(f"validation loss {self.trainer.callback_metrics['val_loss'].item()!r}")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main():
    pl.seed_everything(1)
    train_loader = DataLoader(
        Pictures("data", 160), batch_size=16, shuffle=True, num_workers=2, persistent_workers=True
    )
    val_loader = DataLoader(Pictures("data", 64), batch_size=16, num_workers=1, persistent_workers=True)
    trainer = pl.Trainer(max_epochs=3, accelerator="cpu", log_every_n_steps=5, enable_progress_bar=False)
    trainer.fit(Classifier(), train_loader, val_loader)
    print(f"{trainer.global_step} steps")


if __name__ == "__main__":
    main()
