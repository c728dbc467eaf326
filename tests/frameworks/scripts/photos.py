"""A folder of photographs for image frameworks: noise in two classes, in small files, made on first use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def make_photos(folder: str, each: int, size: int = 32) -> str:
    """``folder/CLASS/NUMBER.png``, so many of each class; returns the folder."""
    numbers = np.random.default_rng(each)
    for label, name in enumerate(("dark", "light")):
        path = Path(folder, name)
        path.mkdir(parents=True, exist_ok=True)
        for number in range(each):
            pixels = numbers.integers(100 * label, 120 + 100 * label, (size, size, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(path / f"{number}.png")
    return folder
