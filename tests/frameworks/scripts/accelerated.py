"""accelerate: prepared objects, accumulated gradients, evaluation and a saved state after each epoch."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from pictures import Pictures
from torch import nn
from torch.utils.data import DataLoader


def main():
    set_seed(1)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    train_loader = DataLoader(Pictures("data", 160), batch_size=16, shuffle=True, num_workers=2)
    eval_loader = DataLoader(Pictures("data", 64), batch_size=16)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
    model, optimizer, train_loader, eval_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, eval_loader, scheduler
    )
    for epoch in range(3):
        model.train()
        for pictures, labels in train_loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(pictures), labels)
                accelerator.backward(loss)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            accelerator.print(f"loss {loss.item()!r}")
        model.eval()
        right = 0
        for pictures, labels in eval_loader:
            with torch.no_grad():
                answers = model(pictures).argmax(dim=-1)
            answers, labels = accelerator.gather_for_metrics((answers, labels))
            right += int((answers == labels).sum())
        accelerator.print(f"epoch {epoch}: {right} right")
        accelerator.save_state(f"state-{epoch}")


if __name__ == "__main__":
    main()
