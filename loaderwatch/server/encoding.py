"""Bodies of limited size, JSON answers with null for unknown values, and the language of their reader."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec
import numpy as np
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from loaderwatch.detect.translation import in_language
from loaderwatch.texts import LANGUAGES, SOURCE, catalogue


class Reader:
    """ASGI middleware that notes a request's language: ``?lang=zh``, else the best of ``Accept-Language``."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._read = {SOURCE}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its language; refuse an unknown language."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("lang", [None])[-1]
        if asked is not None and asked not in LANGUAGES and scope["path"].startswith("/api/"):
            refusal = error_answer(400, f"lang is one of {', '.join(LANGUAGES)}, not {asked[:20]!r}", "lang")
            await refusal(scope, receive, send)
            return
        language = asked or accepted(Headers(scope=scope).get("accept-language", ""))
        if language in LANGUAGES and language not in self._read:
            await run_in_threadpool(catalogue, language)  # off the event loop, because it reads files
            self._read.add(language)
        reader_language.set(language)
        await self._app(scope, receive, send)


def accepted(header: str) -> str:
    """Return the known language that an ``Accept-Language`` header prefers; English if it names none.

    Each part is a language tag with a weight from 0 to 1, such as "zh-CN;q=0.8" (RFC 9110, section 12.5.4).
    Of equal weights the first counts.
    """
    best, most = SOURCE, 0.0
    for part in header[:200].lower().split(","):
        tag, *parameters = (text.strip() for text in part.split(";"))
        weights = [text.removeprefix("q=") for text in parameters if text.startswith("q=")]
        try:
            q = float(weights[0] if weights else 1)
        except ValueError:
            continue
        name = tag.partition("-")[0]
        if name in LANGUAGES and q > most:
            best, most = name, q
    return best


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
