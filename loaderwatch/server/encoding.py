"""Encoding of JSON answers: unknown values are null, and errors have one shape."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from starlette.responses import Response


def encode_json(value: Any) -> bytes:
    """Encode any of our structures as JSON. NaN and infinity become null."""
    return _encoder.encode(value)


def json_answer(value: Any, status: int = 200) -> Response:
    """Make an answer of the API."""
    return Response(encode_json(value), status_code=status, media_type="application/json")


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
