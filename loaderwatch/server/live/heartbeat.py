"""Heartbeats of a run's hosts: which host has fallen silent, by this server's clock, while others go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from loaderwatch.server.envelope_intervals import behind_s

LOST_BEHIND_S: Final = 2.0
"""The ranks of a host that has been silent for so long (two ticks of a second, four envelopes of half a second) while another host
was heard are shown as lost. That is a word in a table, never an alert, and the next envelope takes it back."""


class Heartbeats:
    """When each host was last heard. Call ``heard`` on the event loop, ``lost`` in any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._heard: dict[str, float] = {}

    def heard(self, host: str) -> None:
        """Note that an envelope of this host came."""
        self._heard[host] = self._clock()

    def lost(self, world_size: int) -> Callable[[str], bool]:
        """Return a test for hosts without which others were heard for ``LOST_BEHIND_S``, or longer where streams send seldom.

        The time is measured up to the newest envelope of any host, not up to now: when this server or the network stands
        still, no host is lost. A host that was never heard counts from the server's start, so that it can speak first.
        """
        heard = dict(self._heard)
        since = max(heard.values(), default=self._began) - behind_s(world_size, LOST_BEHIND_S)
        return lambda host: heard.get(host, self._began) < since
