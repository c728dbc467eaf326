"""The upload thread, which sends envelopes in order, so that the drain loop never waits for the network.

Envelopes that gathered during an outage are sent several per request. One by one, a host with 16 ranks would
get about ten acknowledged per second and would need minutes to catch up after an outage of ten minutes.
"""

from __future__ import annotations

import http.client
import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from loaderwatch.core.message import Param, Text
from loaderwatch.core.server_trust import Away, Connection, NotProven, Server, explain
from loaderwatch.core.wire import UNDECODABLE, Receipt, decode_json, join
from loaderwatch.streamer.outbox.outbox import Outbox
from loaderwatch.texts import own_language, say

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 15.0
MAX_ANSWER_BYTES: Final = 2**20
MOST_REASON: Final = 200
"""How many bytes of an answer a line on stderr shows."""
FIRST_BACKOFF_S: Final = 0.25
MAX_BACKOFF_S: Final = 10.0
REFUSED_BACKOFF_S: Final = 30.0
MAX_RETRY_AFTER_S: Final = 60.0
"""Longest pause in seconds that a server may ask for: a wrong server must not silence the job for longer."""
UNREACHED_S: Final = 5.0
"""Time without any answer before the job's stderr says so. A server that starts with the job is faster."""
UNPROVEN_BACKOFF_S: Final = 5.0
"""Pause when token and server do not match: one of them may be about to change."""
REJECTED_STATUSES: Final = frozenset({400, 413, 415, 422})
"""Answers that reject this envelope permanently. A 404 or 405 does not: the address may be wrong, and a wrong
address must not cost data."""


class Uploader(threading.Thread):
    """Sends envelopes of the outbox until stopped. ``find_target`` may block; None means no server."""

    def __init__(self, outbox: Outbox, find_target: Callable[[], Server | None]) -> None:
        super().__init__(name="upload", daemon=True)
        self._outbox = outbox
        self._find_target = find_target
        self._stop_asked = threading.Event()
        self._connection: Connection | None = None
        self._refused = self._refusal_said = self._unproven = False
        self._alone = 0  # how many envelopes must still be sent one by one
        self._away_said = False
        self._unreached_said = self._rejection_said = False
        self._began = time.monotonic()
        self.reached = False  # a server has accepted an envelope
        self.target: Server | None = None
        self.receipts: deque[Receipt] = deque(maxlen=1000)
        self.troubles: deque[Text] = deque(maxlen=10)  # faults to report to a person once

    def stop(self) -> None:
        """Ask the thread to end after the request it is in."""
        self._stop_asked.set()

    def run(self) -> None:
        """The thread's body."""
        backoff_s = FIRST_BACKOFF_S
        while not self._stop_asked.is_set():
            if self.target is None:
                self.target = self._find_target()
                if self.target is None:
                    self._stop_asked.wait(jittered(backoff_s))
                    backoff_s = min(backoff_s * 2, MAX_BACKOFF_S)
                    continue
            waiting = self._outbox.together()
            if not waiting:
                self._outbox.wait(0.5)
                continue
            pause_s = self._send(waiting if self._alone == 0 else waiting[:1])
            if pause_s is None:
                backoff_s = FIRST_BACKOFF_S
                continue
            self._stop_asked.wait(jittered(max(pause_s, backoff_s)))
            backoff_s = min(backoff_s * 2, MAX_BACKOFF_S)
        self._close()

    def _send(self, waiting: list[tuple[int, bytes]]) -> float | None:
        """Send envelopes; return None if they are settled, else the seconds to wait before the next try."""
        assert self.target is not None
        try:
            status, retry_after_s, body = self._post(join([payload for _, payload in waiting]))
        except NotProven as error:
            if self.target.key is not None and not self._unproven:
                self._unproven = True
                return self._leave(0.0)  # a new server has replaced our own; its key is on disk
            self._say_unproven(error)
            return self._leave(UNPROVEN_BACKOFF_S)
        except Away as error:
            self._say_away("away", reason=str(error))
            return self._leave(parse_retry_after(error.retry_after))
        except (OSError, http.client.HTTPException, ValueError) as error:
            # ValueError: a port or token that does not fit into a request.
            self._say_away("unreachable", reason=explain(error))
            return self._leave(0.0)
        if status == 200:
            return self._received(waiting, body)
        if status in REJECTED_STATUSES and len(waiting) > 1:
            self._alone = len(waiting)  # send them one by one to find the rejected one
            return None
        if status in REJECTED_STATUSES:
            ((seq, payload),) = waiting
            self._alone = max(0, self._alone - 1)
            log.error("envelope %d was rejected (%d): %s; set aside as .rejected", seq, status, body[:500])
            self._outbox.reject(seq, payload)
            self._say_rejection(status, body)
            return None
        if status == 429 or status >= 500:
            self._say_away("answers", status=status)
            return retry_after_s
        if status in (401, 403):
            if self._refused:
                self._say_refusal(status, _reason(body))
                return self._leave(UNPROVEN_BACKOFF_S)
            self._refused = True
            return self._leave(0.0)  # a new token may be on disk
        self._say_refusal(status, _reason(body))
        return self._leave(REFUSED_BACKOFF_S)

    def _leave(self, pause_s: float) -> float:
        """Close the connection, because the server may have moved or have a new token; return the pause."""
        self._close()
        self.target = None
        return pause_s

    def _received(self, sent: list[tuple[int, bytes]], body: bytes) -> float | None:
        try:
            receipt = decode_json(body, Receipt)
        except UNDECODABLE as error:
            self._say_refusal(200, Text("not-a-receipt", {"error": str(error)[:MOST_REASON]}))
            self.target = None
            return REFUSED_BACKOFF_S
        self.reached = True
        if self._away_said:
            log.info("the server takes envelopes again")
        self._away_said = self._refusal_said = self._refused = self._unproven = False
        self._alone = max(0, self._alone - len(sent))
        self._outbox.settle(sent[-1][0])
        self.receipts.append(receipt)
        return None

    def _post(self, payload: bytes) -> tuple[int, float, bytes]:
        assert self.target is not None
        if self._connection is None:
            self._connection = Connection(self.target, TIMEOUT_S)
        headers = {"Content-Type": "application/msgpack", "Accept-Language": own_language()}
        answer = self._connection.ask(
            "POST", "/ingest", payload, headers, timeout_s=TIMEOUT_S, most_bytes=MAX_ANSWER_BYTES
        )
        return answer.status, parse_retry_after(answer.retry_after), answer.body

    def _say_away(self, how: str, **told: Param) -> None:
        """Report once how the server is away, with the parameters of the message ``server-away``."""
        params = {"url": "" if self.target is None else self.target.url, "how": how, **told}
        if not self._away_said and self.target is not None:
            self._away_said = True
            log.warning("%s; envelopes wait on disk", say(Text("server-away", params)))
        if self.target is None or self.reached or self._unreached_said:
            return  # a server that answered before will come back and accept what gathered
        if time.monotonic() - self._began > UNREACHED_S:
            self._unreached_said = True
            self.troubles.append(Text("server-not-reached", params))

    def _say_refusal(self, status: int, reason: str | Text) -> None:
        if self._refusal_said or self.target is None:
            return
        self._refusal_said = True
        move = "token" if status in (401, 403) else "address"
        refusal: dict[str, Param] = {"url": self.target.url, "status": status, "reason": reason, "move": move}
        self._complain(Text("server-refuses", refusal))

    def _say_unproven(self, error: NotProven) -> None:
        if self._refusal_said or self.target is None:
            return
        self._refusal_said = True
        self._complain(Text("server-unproven", {"url": self.target.url, "reason": str(error)}))

    def _complain(self, trouble: Text) -> None:
        log.error("%s", say(trouble))
        self.troubles.append(trouble)

    def _say_rejection(self, status: int, body: bytes) -> None:
        if self._rejection_said or self.target is None:
            return
        self._rejection_said = True
        rejection: dict[str, Param] = {"url": self.target.url, "status": status, "reason": _reason(body)}
        self.troubles.append(Text("server-rejects-part", rejection))

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _reason(body: bytes) -> str:
    return body[:MOST_REASON].decode("utf-8", "replace")


def jittered(seconds: float) -> float:
    """Return between half and all of the seconds, so that streamers do not return at the same moment."""
    return seconds * random.uniform(0.5, 1.0)


def parse_retry_after(value: str | None) -> float:
    """Parse the seconds to wait; 0 if the server gave no finite number. Our server sends no dates."""
    try:
        seconds = float(value or 0.0)
    except ValueError:
        return 0.0
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S) if math.isfinite(seconds) else 0.0
