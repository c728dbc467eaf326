"""Hugging Face's Trainer with a stall: ``python -m tests.frameworks.stalls.trainer_stall KIND``."""

from __future__ import annotations

import time

import torch
from transformers import Trainer, TrainingArguments

from tests.frameworks.stalls import culprits

STALL = culprits.kind()


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        time.sleep(culprits.step_s(STALL))
        return {"loss": self.net(x).square().mean()}


def collate(samples: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    return {"x": torch.stack(samples)}


if __name__ == "__main__":
    arguments = TrainingArguments(
        str(culprits.SCRATCH / "trained"),
        max_steps=1000,
        per_device_train_batch_size=culprits.BATCH,
        dataloader_num_workers=culprits.workers(STALL),
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=7,
        remove_unused_columns=False,
    )
    Trainer(Model(), arguments, train_dataset=culprits.dataset(STALL), data_collator=collate).train()
