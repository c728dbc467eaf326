"""Hugging Face's Trainer: gradients of two batches a step, evaluation and a checkpoint every few steps."""

from __future__ import annotations

import torch
from pictures import Pictures
from torch import nn
from transformers import Trainer, TrainingArguments, set_seed


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, pixel_values, labels=None):
        logits = self.net(pixel_values)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def collate(samples):
    return {
        "pixel_values": torch.stack([picture for picture, _ in samples]),
        "labels": torch.tensor([label for _, label in samples]),
    }


def main():
    set_seed(1)
    arguments = TrainingArguments(
        "trained",
        num_train_epochs=3,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=8,
        gradient_accumulation_steps=2,
        dataloader_num_workers=2,
        eval_strategy="steps",
        eval_steps=4,
        save_strategy="steps",
        save_steps=8,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(
        Classifier(),
        arguments,
        train_dataset=Pictures("data", 128),
        eval_dataset=Pictures("data", 40),
        data_collator=collate,
    )
    trainer.train()
    for entry in trainer.state.log_history:
        if "loss" in entry:
            print(f"step {entry['step']}: loss {entry['loss']!r}")
        elif "eval_loss" in entry:
            print(f"step {entry['step']}: evaluation loss {entry['eval_loss']!r}")
    print(f"{trainer.state.global_step} steps")


if __name__ == "__main__":
    main()
