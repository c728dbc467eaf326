"""Rate limits per caller: a burst at once, then a rate."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from math import inf
from typing import Final

from loaderwatch.core.errors import LoaderwatchError

_MOST_KEYS: Final = 10_000  # the oldest is dropped, so that an attacker cannot fill our memory


class TooMany(LoaderwatchError):
    """A caller asks for more than its share; it may try again after ``retry_after_s``."""

    def __init__(self, what: str, retry_after_s: float) -> None:
        super().__init__(f"{what}; try again in {retry_after_s:.0f} s")
        self.retry_after_s = retry_after_s


class Allowance:
    """Allows each key a ``burst`` at once, then ``per_s`` per second."""

    def __init__(self, burst: float, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst = burst
        self._per_s = per_s
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what was left, and when

    def __len__(self) -> int:
        return len(self._left)

    def wait_s(self, key: str, cost: float = 1.0) -> float:
        """Return how long until ``cost`` may be taken, 0 for now. A full allowance also pays a larger one."""
        missing = min(cost, self._burst) - self._now(key)
        return max(0.0, missing / self._per_s)

    def take(self, key: str, cost: float = 1.0) -> None:
        """Take ``cost``, whether allowed or not."""
        left = self._now(key) - cost
        self._left[key] = (left, self._clock())
        self._left.move_to_end(key)
        if len(self._left) > _MOST_KEYS:
            self._left.popitem(last=False)

    def _now(self, key: str) -> float:
        left, at = self._left.get(key, (self._burst, 0.0))
        return min(self._burst, left + (self._clock() - at) * self._per_s)


@dataclass(slots=True)
class _Shown:
    """Digests of the tokens that an address showed last."""

    wrong: deque[bytes] = field(default_factory=lambda: deque(maxlen=64))
    right: deque[bytes] = field(default_factory=lambda: deque(maxlen=64))


class Guesses:
    """Counts wrong tokens per client address.

    An address that showed many different wrong tokens must wait before another one is checked. The same wrong
    token again tells a guesser nothing and counts once, so a job with an old token locks nobody out. A token
    that was right before from this address never waits, so a guesser on a shared machine does not lock out
    users who are signed in.
    """

    BURST: Final = 20
    PER_S: Final = 1 / 3

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._allowance = Allowance(self.BURST, self.PER_S, clock)
        self._shown: OrderedDict[str, _Shown] = OrderedDict()

    def wait_s(self, address: str, token: str) -> float:
        """Return how long until this token is checked, 0 for now."""
        shown = self._shown.get(address)
        if shown is not None and _digest(token) in (*shown.right, *shown.wrong):
            return 0.0
        return self._allowance.wait_s(address)

    def note(self, address: str, token: str, *, right: bool) -> None:
        """Note whether a token that an address showed was right."""
        shown = self._shown.setdefault(address, _Shown())
        self._shown.move_to_end(address)
        if len(self._shown) > _MOST_KEYS:
            self._shown.popitem(last=False)
        digest = _digest(token)
        if digest in (shown.right if right else shown.wrong):
            return
        (shown.right if right else shown.wrong).append(digest)
        if not right:
            self._allowance.take(address)


class Turns:
    """Lets each caller do ``at_once`` requests at a time; ``waiting`` more wait, and others are refused.

    Requests beyond ``most_of_all``, counted over all callers, are refused too. Use it on the event loop only.
    """

    def __init__(
        self, at_once: int, waiting: int = 0, most_of_all: float = inf, retry_after_s: float = 1.0
    ) -> None:
        self._at_once = at_once
        self._most = at_once + waiting
        self._most_of_all = most_of_all
        self._retry_after_s = retry_after_s
        self._count = 0  # of all callers
        self._callers: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def turn(self, caller: str) -> AsyncIterator[None]:
        """Wait for a turn and hold it.

        Raises:
            TooMany: too many requests of this caller already wait.
        """
        semaphore, count = self._callers.get(caller) or (asyncio.Semaphore(self._at_once), 0)
        if count >= self._most:
            raise TooMany(f"{count} questions of yours are being answered", self._retry_after_s)
        if self._count >= self._most_of_all:
            raise TooMany(f"{self._count} questions are being answered", self._retry_after_s)
        # Counted before any await; else all requests that arrive together would pass.
        self._callers[caller] = (semaphore, count + 1)
        self._count += 1
        try:
            async with semaphore:
                yield
        finally:
            self._count -= 1
            count = self._callers[caller][1] - 1
            if count:
                self._callers[caller] = (semaphore, count)
            else:
                del self._callers[caller]


def caller_of(host: str | None) -> str:
    """Return the address that limits count: for IPv6 the network, because each client has a whole one."""
    try:
        address = ip_address(host or "")
    except ValueError:
        return host or ""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return address.exploded[:19]
    return str(address)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()[:16]
