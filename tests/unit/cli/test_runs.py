"""The table of ``loaderwatch runs``."""

from __future__ import annotations

from loaderwatch.cli.runs import in_a_cell


def test_a_cell_is_one_line_of_bounded_width() -> None:
    """A crash's message may hold a traceback, a name anything."""
    assert in_a_cell("uncaught KeyError:\n  File", 40) == "uncaught KeyError: File"
    assert in_a_cell("a\x1b[2Jb", 40) == "a[2Jb"
    assert in_a_cell("x" * 50, 10) == "x" * 9 + "…"
