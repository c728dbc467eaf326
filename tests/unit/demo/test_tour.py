"""The images the demo trains on."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from loaderwatch.demo.tour import SIDE, write_digits


def test_digits_are_written_as_image_files_by_class(tmp_path: Path) -> None:
    assert write_digits(tmp_path) == 1797
    assert sorted(folder.name for folder in tmp_path.iterdir()) == [str(digit) for digit in range(10)]
    files = list(tmp_path.glob("*/*.png"))
    assert len(files) == 1797
    with Image.open(files[0]) as image:
        assert (image.format, image.mode, image.size) == ("PNG", "L", (SIDE, SIDE))
        darkest, brightest = image.convert("L").getextrema()
        assert isinstance(darkest, int)
        assert isinstance(brightest, int)
        assert darkest < 50 < 200 < brightest
