"""MONAI: dictionaries through its transforms, cached, a thread that loads ahead, and a small UNet."""

from __future__ import annotations

import numpy as np
import torch
from monai.data import CacheDataset, DataLoader, ThreadDataLoader
from monai.losses import DiceLoss
from monai.networks.nets import UNet
from monai.transforms import Compose, EnsureChannelFirstd, RandFlipd, ScaleIntensityd
from monai.utils import set_determinism


def make_scans(length):
    numbers = np.random.default_rng(length)
    scans = []
    for _ in range(length):
        image = numbers.random((32, 32), dtype=np.float32)
        mask = np.zeros((32, 32), dtype=np.float32)
        x, y = numbers.integers(0, 16, 2)
        mask[x : x + 16, y : y + 16] = 1
        scans.append({"image": image + mask, "mask": mask})
    return scans


def main():
    set_determinism(1)
    both = ["image", "mask"]
    fixed = [EnsureChannelFirstd(both, channel_dim="no_channel"), ScaleIntensityd("image")]
    train_set = CacheDataset(
        make_scans(40), Compose([*fixed, RandFlipd(both, prob=0.5)]), progress=False, num_workers=1
    )
    val_set = CacheDataset(make_scans(16), Compose(fixed), progress=False, num_workers=1)
    train_loader = DataLoader(train_set, batch_size=4, shuffle=True, num_workers=2)
    val_loader = ThreadDataLoader(val_set, batch_size=4, num_workers=0)
    model = UNet(2, 1, 1, channels=(4, 8), strides=(2,))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    judge = DiceLoss(sigmoid=True)
    for epoch in range(3):
        model.train()
        for batch in train_loader:
            optimizer.zero_grad()
            loss = judge(model(batch["image"]), batch["mask"])
            loss.backward()
            optimizer.step()
            print(f"epoch {epoch}: loss {loss.item()!r}")
        model.eval()
        with torch.no_grad():
            total = sum(judge(model(batch["image"]), batch["mask"]).item() for batch in val_loader)
        print(f"epoch {epoch}: {total!r} of four batches")


if __name__ == "__main__":
    main()
