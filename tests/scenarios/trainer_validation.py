"""S55 in a transformers Trainer: every 25th training step evaluates through a slow loader."""

import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S

STEP_S = 0.04


class Numbers(Dataset[dict[str, Tensor]]):
    """Samples as a Trainer wants them."""

    def __init__(self, length: int, seconds: float) -> None:
        self.length, self.seconds = length, seconds

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        if self.seconds:
            time.sleep(self.seconds)
        return {"x": torch.full((16,), float(index)), "labels": torch.zeros(1)}


class Model(torch.nn.Module):
    """A training step sleeps ``STEP_S``, one of the evaluation ten milliseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 1)

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        time.sleep(STEP_S if self.training else 0.01)
        out = self.layer(x)
        return {"loss": (out - labels).square().mean(), "logits": out}


class Until(TrainerCallback):
    """Ends the training in time."""

    def __init__(self, seconds: float) -> None:
        self.at = time.monotonic() + seconds

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        control.should_training_stop = time.monotonic() > self.at


loaderwatch.attach()
Trainer(
    Model(),
    TrainingArguments(
        output_dir=str(Path(os.environ["LOADERWATCH_DIR"]) / "trainer"),
        use_cpu=True,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=8,
        max_steps=100_000,
        eval_strategy="steps",
        eval_steps=25,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_num_workers=2,
        dataloader_persistent_workers=True,
    ),
    train_dataset=Numbers(8000, 0.0),
    eval_dataset=Numbers(160, 0.01),
    callbacks=[Until(UNTIL_FOUND_S)],
).train()
