"""Sampled stacks: texts as faulthandler writes them, and rows of the table ``profile``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loaderwatch.core.facts import ProfileStack
from loaderwatch.core.records import ProfilePart, ThreadState
from tests.fakes.runs import T0, table

FETCH = ("/usr/lib/python3.12/site-packages/torch/utils/data/_utils/fetch.py", 54, "fetch")
GET = ("/home/ada/faces.py", 48, "__getitem__")
OPEN = ("/usr/lib/python3.12/zipfile/__init__.py", 1352, "__init__")
DECODE = ("/usr/lib/python3.12/site-packages/PIL/Image.py", 3280, "open")
SIZE = ("/home/ada/faces.py", 60, "size")

ZIP, PICTURE, OWN, LIBRARY = 7001, -7002, 7003, 7004
"""Ids of ``STACKS``."""


def text(*frames: tuple[str, int, str]) -> str:
    """The text of a stack, innermost frame first."""
    lines = [f'  File "{file}", line {line} in {function}' for file, line, function in frames]
    return "\n".join(["Stack (most recent call first):", *lines])


TEXTS = {
    ZIP: text(OPEN, GET, FETCH),
    PICTURE: text(DECODE, GET, FETCH),
    OWN: text(SIZE, GET, FETCH),
    LIBRARY: text(FETCH),
}
STACKS = [ProfileStack(id=number, text=words) for number, words in TEXTS.items()]


def counts(stacks: Sequence[int], samples: Sequence[int], **more: Any) -> dict[str, bytes]:
    """Rows of ``profile``: samples of stacks in fetches of rank 0's worker 0, on a CPU, unless said."""
    fields: dict[str, Any] = {
        "rank": 0,
        "loader": 0,
        "worker": 0,
        "t_ns": T0,
        "part": ProfilePart.FETCH,
        "state": ThreadState.RUNNING,
        "readers": 1,
    }
    return table("profile", **(fields | {"stack": stacks, "samples": samples} | more))
