"""The lineage of loaders: which earlier loader a new one continues, in scripts that keep recreating a loader.

Loaders that can be iterated at the same time are always different. So the earlier loader must be gone, or its
pass must have ended before the new loader was made.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from loaderwatch.agent.guard import ask, weakly
from loaderwatch.agent.loaders.construction import Made
from loaderwatch.agent.loaders.watch import Watch
from loaderwatch.core.facts import LoaderInfo, LoaderRole

MOST_VARIANTS: Final = 8
"""Most loaders with different data or options per line and role; further ones continue one of these."""
MOST_LOADERS: Final = 256
"""Most loaders in a session; after that, a new loader continues any free one."""


@dataclass
class Line:
    """The newest loader in a chain of loaders that continue each other."""

    watch: Watch
    info: LoaderInfo
    made: Made | None
    loader: Callable[[], Any]
    dataset: Callable[[], Any]


class Lineage:
    """The loaders that a session has watched."""

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._choosing = threading.Lock()  # several threads may begin a new loader at the same time
        self._given: dict[int, tuple[weakref.ref[Any], str, LoaderRole]] = {}

    def taken_up(self, loader: Any, info: LoaderInfo, made: Made | None) -> tuple[Watch, bool] | None:
        """Return the watch that a new loader continues and whether its description differs; None if none."""
        with self._choosing:
            line = self._found(loader, info, made)
            if line is None:
                return None
            line.watch.left_ns = sys.maxsize
            earlier, line.loader = line.loader(), weakly(loader)
        changed = line.info != info
        if earlier is not None:
            self._let_go(earlier, line.info)
        line.info, line.made, line.dataset = info, made, weakly(ask(lambda: loader.dataset))
        line.watch.made_anew = True
        return line.watch, changed

    def add(self, loader: Any, info: LoaderInfo, made: Made | None, watch: Watch) -> None:
        """Add a loader that continues no earlier one."""
        dataset = ask(lambda: loader.dataset)
        self._lines = [line for line in self._lines if not line.watch.closed]
        self._lines.append(Line(watch, info, made, weakly(loader), weakly(dataset)))

    def hold(self, watch: Watch, holder: Any) -> None:
        """Note the wrapper of a loader: while the wrapper lives, the loader can be iterated."""
        for line in self._lines:
            if line.watch is watch:
                line.loader = weakly(holder)

    def given(self, loader: Any) -> tuple[str, LoaderRole] | None:
        """Return the name and role that this loader had before another loader continued it."""
        entry = self._given.get(id(loader))
        return (entry[1], entry[2]) if entry is not None and entry[0]() is loader else None

    def _let_go(self, loader: Any, info: LoaderInfo) -> None:
        key = id(loader)
        self._given[key] = weakref.ref(loader, lambda _: self._given.pop(key, None)), info.name, info.role

    def _found(self, loader: Any, info: LoaderInfo, made: Made | None) -> Line | None:
        lines = [line for line in self._lines if not line.watch.closed]
        free = [line for line in lines if line.info.role == info.role and _is_free(line, made)]
        dataset = ask(lambda: loader.dataset)
        alike = [line for line in lines if _comes_from_the_same(line, info, made)]
        for line in free:
            known = line.dataset()
            if (
                line in alike
                and _likeness(line.info) == _likeness(info)
                and (known is None or known is dataset)
            ):
                return line
        if len(alike) >= MOST_VARIANTS:
            free = [line for line in free if line in alike]
        elif len(lines) < MOST_LOADERS:
            return None
        return min(free, key=lambda line: line.watch.left_ns, default=None)


def _likeness(info: LoaderInfo) -> LoaderInfo:
    """Return the description without the facts that change while the loader is used."""
    return msgspec.structs.replace(info, loader=0, same_epoch_passes=None, shards=None)


def _comes_from_the_same(line: Line, info: LoaderInfo, made: Made | None) -> bool:
    known, new = line.info, info
    if (known.name, known.role, known.class_name, known.dataset_class) != (
        new.name,
        new.role,
        new.class_name,
        new.dataset_class,
    ):
        return False
    return made is None or line.made is None or made.line == line.made.line


def _is_free(line: Line, made: Made | None) -> bool:
    """Whether this line's loader cannot be iterated at the same time as the new loader."""
    watch = line.watch
    if line.loader() is None:
        return not watch.passes
    if any(known.opened for known in watch.passes):
        return False
    return made is not None and made.at_ns > watch.left_ns
