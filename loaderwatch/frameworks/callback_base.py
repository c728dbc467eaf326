"""What all callbacks share: they attach, tell how far the framework is, and name parts of the loop.

If a framework does not have something under the name that we know (a version older or newer than those we
tried), it is asked for in vain once. That is said in one line on stderr, and from then on the run is one that
was plainly attached.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any

import loaderwatch
from loaderwatch.agent.guard import ask
from loaderwatch.agent.process.printed_once import say_once
from loaderwatch.agent.progress import publish_progress


class Teller:
    """The link between one run of a framework and the page.

    Args:
        framework: its name, as a person writes it.
        version: as it says itself.
    """

    def __init__(self, framework: str, version: str) -> None:
        self.framework = framework
        self.version = str(version)
        self._off = False
        self._open: list[tuple[str, AbstractContextManager[None]]] = []
        self._wrapped: list[tuple[Any, str]] = []

    def attach(self) -> None:
        """Watch every loader of this process, and what trains."""
        loaderwatch.attach()

    def tell(self, stage: str | None, question: Callable[[], dict[str, int | None]] = dict) -> None:
        """Report the framework's stage; None: it is at none any more.

        Args:
            stage: "train", "validate", "test", "predict", "sanity check".
            question: returns ``epoch`` (from 0), ``max_epochs`` and ``global_step``, as far as there are any.
        """
        if self._off:
            return
        facts = ask(question)
        if facts is None:
            self._off = True
            say_once(
                f"does not know {self.framework} {self.version}; the run is watched,"
                " but its stages and epochs are not shown. Try another version of either"
            )
            return
        publish_progress(framework=self.framework, framework_version=self.version, stage=stage, **facts)

    def enter(self, name: str) -> None:
        """Begin a part of the loop, unless one of that name goes on."""
        if not self.is_in(name):
            phase = loaderwatch.phase(name)
            phase.__enter__()
            self._open.append((name, phase))

    def leave(self, name: str) -> None:
        """End the part of this name, and what was entered inside it."""
        while self.is_in(name):
            _, phase = self._open.pop()
            phase.__exit__(None, None, None)

    def is_in(self, name: str) -> bool:
        """Whether a part of this name goes on."""
        return any(one == name for one, _ in self._open)

    def leave_all(self) -> None:
        """End every part that goes on: the framework is known to be elsewhere."""
        while self._open:
            self.leave(self._open[0][0])

    def time(self, owner: Any, method: str, name: str) -> None:
        """Show each call of this method of one object as a part of the loop, ``name``, until ``restore``."""
        own = ask(lambda: getattr(owner, method))
        if own is None or any(one is owner and known == method for one, known in self._wrapped):
            return

        @wraps(own)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with loaderwatch.phase(name):
                return own(*args, **kwargs)

        ask(lambda: setattr(owner, method, timed))
        self._wrapped.append((owner, method))

    def restore(self) -> None:
        """Give the objects their own methods back."""
        for owner, method in self._wrapped:
            ask(lambda owner=owner, method=method: delattr(owner, method))  # type: ignore[misc]
        self._wrapped.clear()
