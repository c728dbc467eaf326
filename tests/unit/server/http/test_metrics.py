"""Labels that any trainer may choose."""

from __future__ import annotations

from loaderwatch.server.http.metrics import _labels


def test_a_name_cannot_end_its_line_nor_its_label() -> None:
    name = 'a\r\x1b[2J\x00\x85\u2028b"\\\n'
    assert _labels({"run": "r", "name": name}) == '{run="r",name="a[2Jb\\"\\\\\\n"}'
