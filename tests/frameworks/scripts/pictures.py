"""A minimal data set on disk: pictures of 28 × 28 pixels in two classes, made on first use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset


class Pictures(Dataset[tuple[Tensor, int]]):
    """``length`` pictures below ``folder``: noise, with a bright half that is upper or lower."""

    def __init__(self, folder: str, length: int) -> None:
        self.path = Path(folder, f"pictures-{length}.npz")
        if not self.path.exists():
            self._make(length)
        stored = np.load(self.path)
        self.pictures, self.labels = stored["pictures"], stored["labels"]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        picture = torch.from_numpy(self.pictures[index]).float().div(255).unsqueeze(0)
        return (picture - 0.13) / 0.31, int(self.labels[index])

    def _make(self, length: int) -> None:
        numbers = np.random.default_rng(length)
        labels = numbers.integers(0, 2, length)
        pictures = numbers.integers(0, 120, (length, 28, 28), dtype=np.uint8)
        for picture, label in zip(pictures, labels, strict=True):
            picture[14 * label : 14 * label + 14] += 120
        self.path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(self.path, pictures=pictures, labels=labels)
