"""Heartbeats of a run's hosts: by this server's clock, which host is silent while others report."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from loaderwatch.server.envelope_intervals import behind_s

LOST_BEHIND_S: Final = 2.0
"""A host is shown as lost after this silence (two ticks of a second, four envelopes of half a second) while
another host was heard. That is a word in a table, never an alert, and the next envelope clears it."""


class Heartbeats:
    """When each host was last heard. Call ``heard`` on the event loop, ``lost`` in any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._heard: dict[str, float] = {}

    def heard(self, host: str) -> None:
        """Note that an envelope of this host arrived."""
        self._heard[host] = self._clock()

    def lost(self, world_size: int) -> Callable[[str], bool]:
        """Return a test for lost hosts: others were heard ``LOST_BEHIND_S`` later, or more if sends are rare.

        The time counts up to the newest envelope of any host, not up to now. So no host is lost while this
        server or the network stands still. A host that was never heard counts from the server's start.
        """
        heard = dict(self._heard)
        since = max(heard.values(), default=self._began) - behind_s(world_size, LOST_BEHIND_S)
        return lambda host: heard.get(host, self._began) < since
