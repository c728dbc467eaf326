"""A loader that is made anew again and again is one loader: which of those that were watched a new one goes on with.

Two that can be iterated at the same time are two, whatever they have in common: the one before must be gone, or its pass
must have ended before the new one was made.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from loaderwatch.agent.guard import ask
from loaderwatch.agent.loaders.construction import Made
from loaderwatch.agent.loaders.watch import Watch
from loaderwatch.core.wire import LoaderInfo

MOST_VARIANTS: Final = 8
"""Of loaders that one line makes for one purpose, each of other data or options; further ones go on with one of them."""
MOST_LOADERS: Final = 256
"""In all; then a new one goes on with any that is free."""


@dataclass
class Line:
    """A loader that is watched, or was: the newest of those that followed each other."""

    watch: Watch
    info: LoaderInfo
    made: Made | None
    loader: Callable[[], Any]
    dataset: Callable[[], Any]


class Lineage:
    """All that a session watched, under the names that were asked for."""

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._choosing = threading.Lock()  # several threads may begin with a new loader at the same time
        self._given: dict[int, tuple[weakref.ref[Any], str, str]] = {}

    def taken_up(self, loader: Any, info: LoaderInfo, made: Made | None) -> tuple[Watch, bool] | None:
        """The watch that a new loader goes on with, and whether it is described otherwise; None: it is another one."""
        with self._choosing:
            line = self._found(loader, info, made)
            if line is None:
                return None
            line.watch.left_ns = sys.maxsize
            earlier, line.loader = line.loader(), _weakly(loader)
        changed = line.info != info
        if earlier is not None:
            self._let_go(earlier, line.info)
        line.info, line.made, line.dataset = info, made, _weakly(ask(lambda: loader.dataset))
        line.watch.made_anew = True
        return line.watch, changed

    def add(self, loader: Any, info: LoaderInfo, made: Made | None, watch: Watch) -> None:
        """It is another one."""
        dataset = ask(lambda: loader.dataset)
        self._lines = [line for line in self._lines if not line.watch.closed]
        self._lines.append(Line(watch, info, made, _weakly(loader), _weakly(dataset)))

    def hold(self, watch: Watch, holder: Any) -> None:
        """What stands for the loader, if that is not the loader itself."""
        for line in self._lines:
            if line.watch is watch:
                line.loader = _weakly(holder)

    def given(self, loader: Any) -> tuple[str, str] | None:
        """The name and the role under which it was watched before another one went on in its place."""
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
    """What it is described by, without what changes as it is used."""
    return msgspec.structs.replace(info, loader=0, same_epoch_passes=None, shards=None)


def _comes_from_the_same(line: Line, info: LoaderInfo, made: Made | None) -> bool:
    one, other = line.info, info
    if (one.name, one.role, one.class_name, one.dataset_class) != (
        other.name,
        other.role,
        other.class_name,
        other.dataset_class,
    ):
        return False
    return made is None or line.made is None or made.line == line.made.line


def _is_free(line: Line, made: Made | None) -> bool:
    """Whether nobody can iterate it at the same time as a loader that was made like this."""
    watch = line.watch
    if line.loader() is None:
        return not watch.passes
    if any(one.opened for one in watch.passes):
        return False
    return made is not None and made.at_ns > watch.left_ns


def _weakly(one: Any) -> Callable[[], Any]:
    """Asks for an object that may be gone, or that nobody can ask for."""
    return ask(lambda: weakref.ref(one)) or (lambda: None)
