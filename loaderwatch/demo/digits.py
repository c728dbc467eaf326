"""scikit-learn's handwritten digits as a folder of PNG files, as an image data set lies on disk.

There is one folder for each class.
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits

SIDE = 32
"""Pixels of an image's edge; the digits come as 8 x 8 and are enlarged, so that decoding is work."""


def write_digits(folder: Path) -> int:
    """Write ``<class>/<index>.png`` under ``folder`` and return how many images there are (1,797).

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
