"""What to call a loader that nobody named."""

from __future__ import annotations

import re
from typing import Any, Final

from loaderwatch.agent.source import frames_outside, is_script
from loaderwatch.core.wire import LoaderInfo

MOST_ENTRIES: Final = 64
"""A larger dictionary holds data, not loaders."""
_EVALUATES: Final = re.compile(r"val(?!ue)|test|eval|dev(?!ic)")


def name_of(loader: Any) -> str:
    """What the script calls it, else the class of its dataset.

    Of several variables (and attributes of self) that hold it, the outermost: not some function's parameter.
    Not for a process that goes on to train: up to Python 3.12 a frame keeps alive what was asked of its variables.
    """
    found = None
    for frame in frames_outside():
        if not is_script(frame.f_code.co_filename):
            continue
        own = frame.f_locals.get("self")
        members = {} if own is loader else getattr(own, "__dict__", {})
        for scope in (members, frame.f_locals, frame.f_globals):
            for name, value in list(scope.items()):
                if name == "self" or name.startswith("_"):
                    continue
                if value is loader:
                    found = name
                elif isinstance(value, dict) and len(value) <= MOST_ENTRIES:
                    keys = [key for key, inner in value.items() if inner is loader and isinstance(key, str)]
                    found = f"{name}[{keys[0]!r}]" if keys else found
    return found or type(getattr(loader, "dataset", loader)).__name__


def names_evaluation(name: str) -> bool:
    """Whether a word of the name begins as those for evaluation do: val_loader, testloader, loaders['dev']."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    return any(_EVALUATES.match(word.lower()) for word in words)


def unique(name: str, known: list[LoaderInfo]) -> str:
    """The name with a number behind it, if another loader has it already."""
    names = {info.name for info in known}
    candidate, count = name, 1
    while candidate in names:
        count += 1
        candidate = f"{name}-{count}"
    return candidate
