"""What all callbacks share: they attach, report the framework's progress, and name parts of the loop.

An older or newer version of a framework may lack a name that we use. Then one line on stderr says so, and the
run continues as if it was plainly attached.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any

import loaderwatch
from loaderwatch.agent.guard import ask, in_own_language
from loaderwatch.agent.process.printed_once import say_once
from loaderwatch.agent.progress import publish_progress


class Teller:
    """The link between one run of a framework and the page.

    Args:
        framework: its name, as people write it.
        version: its version, from the framework itself.
    """

    def __init__(self, framework: str, version: str) -> None:
        self.framework = framework
        self.version = str(version)
        self._off = False
        self._open: list[tuple[str, AbstractContextManager[None]]] = []
        self._wrapped: list[tuple[Any, str]] = []

    def attach(self) -> None:
        """Watch every loader of this process, and the model and optimizer that train."""
        loaderwatch.attach()

    def tell(self, stage: str | None, question: Callable[[], dict[str, int | None]] = dict) -> None:
        """Report the framework's stage; None: no stage any more.

        Args:
            stage: "train", "validate", "test", "predict", "sanity check".
            question: returns ``epoch`` (from 0), ``max_epochs`` and ``global_step``, as far as they exist.
        """
        if self._off:
            return
        facts = ask(question)
        if facts is None:
            self._off = True
            say_once(in_own_language("unknown-framework", framework=self.framework, version=self.version))
            return
        publish_progress(framework=self.framework, framework_version=self.version, stage=stage, **facts)

    def enter(self, name: str) -> None:
        """Begin a part of the loop, unless a part of that name is open."""
        if not self.is_in(name):
            phase = loaderwatch.phase(name)
            phase.__enter__()
            self._open.append((name, phase))

    def leave(self, name: str) -> None:
        """End the part of this name and all parts inside it."""
        while self.is_in(name):
            _, phase = self._open.pop()
            phase.__exit__(None, None, None)

    def is_in(self, name: str) -> bool:
        """Whether a part of this name is open."""
        return any(open_name == name for open_name, _ in self._open)

    def leave_all(self) -> None:
        """End every open part, because the framework is elsewhere."""
        while self._open:
            self.leave(self._open[0][0])

    def time(self, owner: Any, method: str, name: str) -> None:
        """Show each call of an object's method as a part of the loop, ``name``, until ``restore``."""
        own = ask(lambda: getattr(owner, method))
        if own is None or any(wrapped is owner and known == method for wrapped, known in self._wrapped):
            return

        @wraps(own)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with loaderwatch.phase(name):
                return own(*args, **kwargs)

        ask(lambda: setattr(owner, method, timed))
        self._wrapped.append((owner, method))

    def restore(self) -> None:
        """Restore the objects' own methods."""
        for owner, method in self._wrapped:
            ask(lambda owner=owner, method=method: delattr(owner, method))  # type: ignore[misc]
        self._wrapped.clear()
