"""scikit-learn's handwritten digits as PNG files, one folder per class, like an image data set on disk."""

from __future__ import annotations

from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits

SIDE = 32
"""Pixels of an image's edge. The digits are 8 x 8 and are enlarged, so that decoding takes work."""


def write_digits(folder: Path) -> int:
    """Write ``<class>/<index>.png`` under ``folder`` and return the number of images (1,797).

    Raises:
        OSError: the folder cannot be written.
    """
    bunch = load_digits()
    for index, (pixels, label) in enumerate(zip(bunch.images, bunch.target, strict=True)):
        path = folder / str(label) / f"{index:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        shades = (pixels * (255 / 16)).astype("uint8")
        Image.fromarray(shades).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(path)
    return len(bunch.target)
