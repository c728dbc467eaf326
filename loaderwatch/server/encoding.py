"""Bodies and answers over HTTP: bodies of limited size, and JSON answers with null for unknown values."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from loaderwatch.detect.translation import in_language
from loaderwatch.texts import SOURCE

reader_language: Final = ContextVar("reader_language", default=SOURCE)
"""The language, "en" or "zh", of the sentences in the answer to the current request."""


async def body_of(request: Request, most: int) -> bytes | None:
    """Return a request's body; None as soon as it is longer than ``most`` bytes.

    Raises:
        ClientDisconnect: the request ended early.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            return None
    return bytes(body)


def too_large(most: int) -> Response:
    """Make the answer to a request whose body is too long."""
    return error_answer(413, f"at most {most} bytes are accepted", "(body)")


def encode_json(value: Any, language: str = SOURCE) -> bytes:
    """Encode any of our structures as JSON, its sentences in a language. NaN and infinity become null."""
    return _encoder.encode(in_language(value, language))


def significant(values: NDArray[np.float64], digits: int | None) -> NDArray[np.float64]:
    """Round to this many significant digits (None: not at all), enough for a chart or a short answer."""
    if digits is None:
        return values
    with np.errstate(divide="ignore", invalid="ignore"):
        places = digits - 1 - np.floor(np.log10(np.abs(values)))
    factors = np.power(10.0, np.where(np.isfinite(places), np.clip(places, -300, 300), 0.0))
    rounded: NDArray[np.float64] = np.round(values * factors) / factors
    return rounded


def json_answer(value: Any, status: int = 200) -> Response:
    """Make an answer of the API in the reader's language."""
    return Response(
        encode_json(value, reader_language.get()), status_code=status, media_type="application/json"
    )


def error_answer(status: int, error: str, field: str | None = None) -> Response:
    """Make an error answer of the API."""
    return json_answer({"error": error, "field": field}, status)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"cannot be written as JSON: {type(value).__name__}")


_encoder = msgspec.json.Encoder(enc_hook=_plain)
