"""The texts of sampled stacks that a window holds: the newest, and those that its counts name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from loaderwatch.core.facts import ProfileStack

MOST_BYTES: Final = 16 * 2**20
"""Characters of the texts of one run. A stack has about two thousand, and a few hundred are frequent."""
_LEFT: Final = 0.75
"""The part of ``MOST_BYTES`` that is left where texts are dropped, so that this happens now and then."""


class ProfileTexts:
    """Takes the texts of one run in any order, repeated ones as well."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}  # by id; the last to arrive is last
        self._shown: Mapping[int, str] | None = None
        self.held_bytes = 0
        """The memory of the texts, in characters."""

    def take(self, stacks: Iterable[ProfileStack], counted: Callable[[], Collection[int]]) -> None:
        """Keep texts. If there are too many, drop old ones, and first those that are not ``counted``."""
        for stack in stacks:
            self._drop(stack.id)
            self._texts[stack.id] = stack.text
            self.held_bytes += len(stack.text)
            self._shown = None
        if self.held_bytes > MOST_BYTES:
            named = counted()
            for number in sorted(self._texts, key=lambda number: number in named):
                if self.held_bytes <= _LEFT * MOST_BYTES:
                    break
                self._drop(number)

    def _drop(self, number: int) -> None:
        self.held_bytes -= len(self._texts.pop(number, ""))

    def shown(self) -> Mapping[int, str]:
        """Return the texts by id, as an object that does not change any more."""
        if self._shown is None:
            self._shown = dict(self._texts)
        return self._shown
