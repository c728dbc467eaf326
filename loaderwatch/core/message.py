"""A message in no language yet: its id in the catalogues of ``loaderwatch.texts``, and its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, Union

import msgspec

Param: TypeAlias = Union[bool, int, float, str, Sequence[Union[int, str, "Text"]], "Text", None]
"""A value in a message: a number in SI units, a name, a list, a choice between variants, or another text."""


class Text(msgspec.Struct, frozen=True):
    """A message in no language yet: its id, a ``part`` of the message if not all, and the needed values."""

    id: str
    params: dict[str, Param] = {}
    part: str | None = None  # "because", "title"; None is the message itself
