"""Checks of parameters in JSON bodies; an error names the parameter."""

from __future__ import annotations

import math
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request

from loaderwatch.core.wire import UNDECODABLE, look_at
from loaderwatch.server.encoding import body_of

_MAX_BODY: Final = 4096  # bytes
_T = TypeVar("_T")


class ParameterError(ValueError):
    """A parameter has an unusable value."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


def finite_number(body: Any, name: str, low: float, high: float) -> float:
    """Return a number of a JSON body.

    Raises:
        ParameterError: the value is missing, not a number, or outside the limits.
    """
    value = body.get(name) if isinstance(body, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ParameterError(name, f'{value!r}; send a JSON object with a number, e.g. {{"{name}": 3600}}')
    if not low <= value <= high:
        raise ParameterError(name, f"{value:g}; use {low:g} to {high:g}")
    return float(value)


async def json_body(request: Request, most: int = _MAX_BODY) -> Any:
    """Return the JSON of a request's body of at most ``most`` bytes; None if the body is empty.

    Raises:
        ParameterError: the body is longer, or not JSON.
    """
    body = await body_of(request, most)
    if body is None:
        raise ParameterError("(body)", f"at most {most} bytes are accepted")
    try:
        return msgspec.json.decode(body or b"null")
    except UNDECODABLE as error:
        raise ParameterError("(body)", f"not JSON: {error}") from error


def struct_of(body: Any, kind: type[_T]) -> _T:
    """Return a JSON body as a struct.

    Raises:
        ParameterError: a field is missing or has a value that the struct does not accept; the error names it.
    """
    look_at(kind)
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        said, _, where = str(error).partition(" - at `$")
        name = where.strip(".`").partition("[")[0].partition("`")[0]
        raise ParameterError(name or "(body)", said) from error
