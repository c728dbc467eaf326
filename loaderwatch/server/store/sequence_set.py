"""A set of a stream's sequence numbers, kept as intervals so that it stays small."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable


class SequenceSet:
    """A set of positive integers that arrive mostly in order."""

    def __init__(self) -> None:
        self._lows: list[int] = []
        self._highs: list[int] = []

    def __contains__(self, seq: int) -> bool:
        at = bisect_right(self._lows, seq) - 1
        return at >= 0 and seq <= self._highs[at]

    @property
    def highest(self) -> int:
        """The greatest member; 0 when the set is empty."""
        return self._highs[-1] if self._highs else 0

    def intervals(self) -> list[tuple[int, int]]:
        """Return the members as inclusive intervals, ascending and not touching."""
        return list(zip(self._lows, self._highs, strict=True))

    def add(self, low: int, high: int | None = None) -> None:
        """Add ``low`` to ``high`` inclusive (``low`` alone when ``high`` is None)."""
        high = low if high is None else high
        lows, highs = self._lows, self._highs
        if highs and low == highs[-1] + 1:  # nearly always
            highs[-1] = high
            return
        first = bisect_right(lows, low)
        if first and highs[first - 1] >= low - 1:
            first -= 1
        last = first
        while last < len(lows) and lows[last] <= high + 1:
            last += 1
        if last > first:
            low, high = min(low, lows[first]), max(high, highs[last - 1])
        lows[first:last] = [low]
        highs[first:last] = [high]

    def extend(self, intervals: Iterable[tuple[int, int]]) -> None:
        """Add inclusive intervals."""
        for low, high in intervals:
            self.add(low, high)
