"""The language of the sentences in an answer."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from loaderwatch.server.encoding import error_answer, reader_language
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
