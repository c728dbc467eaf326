"""timm: its folder dataset, its augmentation and loaders, a model and an optimizer of its factories."""

from __future__ import annotations

import argparse

import timm
import torch
from photos import make_photos
from timm.data import create_dataset, create_loader
from timm.optim import create_optimizer_v2
from timm.utils import random_seed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--use-multi-epochs-loader", action="store_true")
    parser.add_argument("--no-prefetcher", action="store_true")
    args = parser.parse_args()
    random_seed(1)
    how = {
        "input_size": (3, 32, 32),
        "batch_size": 16,
        "use_prefetcher": not args.no_prefetcher,
        "num_workers": 2,
        "use_multi_epochs_loader": args.use_multi_epochs_loader,
        "device": torch.device("cpu"),
    }
    train_set = create_dataset("", make_photos("train", 80), is_training=True)
    eval_set = create_dataset("", make_photos("validation", 32))
    train_loader = create_loader(train_set, is_training=True, **how)
    eval_loader = create_loader(eval_set, is_training=False, **how)
    model = timm.create_model("test_resnet", num_classes=2)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3)
    for epoch in range(3):
        model.train()
        for pictures, labels in train_loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(pictures), labels)
            loss.backward()
            optimizer.step()
            print(f"epoch {epoch}: loss {loss.item()!r}")
        model.eval()
        right = 0
        with torch.no_grad():
            for pictures, labels in eval_loader:
                right += int((model(pictures).argmax(1) == labels).sum())
        print(f"epoch {epoch}: {right} right")


if __name__ == "__main__":
    main()
