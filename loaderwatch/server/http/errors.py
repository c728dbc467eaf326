"""Our errors as answers."""

from __future__ import annotations

from starlette.responses import Response

from loaderwatch.core.errors import LoaderwatchError, WireError
from loaderwatch.server.access.rate_limits import TooMany
from loaderwatch.server.access.request_gate import too_many
from loaderwatch.server.alerts.alert_book import UnknownAlert
from loaderwatch.server.encoding import error_answer
from loaderwatch.server.ingest import Busy
from loaderwatch.server.store.deadline import Stopped
from loaderwatch.server.store.facts import UnknownAttempt
from loaderwatch.server.store.protocol import UnknownRun


def answer_to(error: LoaderwatchError) -> Response:
    """Return the answer to a request that ended with this error."""
    if isinstance(error, WireError):
        return error_answer(400, str(error), error.field)
    if isinstance(error, UnknownRun):
        return error_answer(404, str(error), "run")
    if isinstance(error, UnknownAttempt):
        return error_answer(404, str(error), "attempt")
    if isinstance(error, UnknownAlert):
        return error_answer(404, str(error), "id")
    if isinstance(error, TooMany):
        return too_many(error)
    if isinstance(error, Busy):
        answer = error_answer(429, str(error))
        answer.headers["retry-after"] = str(max(1, round(error.retry_after_s)))
        return answer
    answer = error_answer(503, str(error))
    answer.headers["retry-after"] = "60" if isinstance(error, Stopped) else "2"
    return answer
