"""Something to say, in no language yet: the id of a message in the catalogues of ``loaderwatch.texts``, and its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, Union

import msgspec

Param: TypeAlias = Union[bool, int, float, str, Sequence[Union[int, str, "Text"]], "Text", None]
"""A value in a message: a number in SI units, a name, a list, a choice between variants, or another text."""


class Text(msgspec.Struct, frozen=True):
    """Something to say, in no language yet: a message's id, or one ``part`` of the message, and the values that it needs."""

    id: str
    params: dict[str, Param] = {}
    part: str | None = None  # "because", "title"; None is the message itself
