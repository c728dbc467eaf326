"""Which hosts of a run have fallen silent: by this server's own clock, and beside the hosts that go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

LOST_BEHIND_S: Final = 2.0
"""Two ticks of a second, four envelopes. Ranks of a host that has been silent for so long while another host was heard are
shown as lost; it is a word in a table, never an alert, and the next envelope takes it back."""


class Hearing:
    """When each host was last heard of. ``heard`` comes from the event loop, ``lost`` from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._heard: dict[str, float] = {}

    def heard(self, host: str) -> None:
        """An envelope of this host came."""
        self._heard[host] = self._clock()

    def lost(self, host: str) -> bool:
        """Whether others were heard of for so long without this one.

        Measured up to what was heard last, not up to now: when this server or the network stands still, nobody is
        lost. A host that was never heard of counts from the beginning, so that it has a chance to speak after a restart.
        """
        heard = dict(self._heard)
        newest = max(heard.values(), default=self._began)
        return newest - heard.get(host, self._began) > LOST_BEHIND_S
