"""Names for unnamed loaders: the variable in the script, else the dataset's class."""

from __future__ import annotations

import dis
import functools
import re
from types import CodeType
from typing import Any, Final

from loaderwatch.agent.guard import ask
from loaderwatch.agent.loaders.construction import Made
from loaderwatch.agent.source import frames_outside, is_script
from loaderwatch.core.facts import LoaderInfo

MOST_ENTRIES: Final = 64
"""Entries of the largest dictionary that is searched for loaders; a larger one holds data."""
MOST_LETTERS: Final = 60
MOST_CODE: Final = 100_000
"""Most bytecode bytes of a function (or a script's top level) that are searched for a name."""
_SAYS_NOTHING: Final = ("loader", "dataloader", "data_loader", "dl", "data", "result", "self")
_EVALUATES: Final = re.compile(r"val(?!ue)|test|eval|dev(?!ic)")


def name_of(loader: Any) -> str:
    """Return the variable that holds the loader in the script, else the class of its dataset.

    Of several variables (and attributes of self) the outermost counts, not a function's parameter. Only for a
    process that does not train afterwards: up to Python 3.12, reading a frame's variables keeps them alive.
    """
    holder = None
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
                    holder = name
                elif isinstance(value, dict) and len(value) <= MOST_ENTRIES:
                    keys = [key for key, inner in value.items() if inner is loader and isinstance(key, str)]
                    holder = f"{name}[{keys[0]!r}]" if keys else holder
    return holder or type(getattr(loader, "dataset", loader)).__name__


def name_made(made: Made | None, loader: Any, role: str) -> str:
    """Return the loader's name in the bytecode, else the function that returns it, else role and dataset."""
    returned_by = None
    for code, at in made.calls if made is not None else ():
        stored_as = ask(lambda code=code, at=at: _stored_as(code, at))  # type: ignore[misc]
        if stored_as and stored_as.strip("_").lower() not in _SAYS_NOTHING:
            return stored_as[:MOST_LETTERS]
        if stored_as != "":
            break
        if returned_by is None and (names_evaluation(code.co_name) or "train" in code.co_name):
            returned_by = code.co_name
    if returned_by is not None:
        return returned_by[:MOST_LETTERS]
    kind = type(ask(lambda: loader.dataset)).__name__
    return f"{'training' if role == 'train' else 'validation'} loader ({kind})"


@functools.lru_cache(256)
def _stored_as(code: CodeType, at: int) -> str | None:
    """Return the name that stores the result of the call at this instruction; "" if it is returned."""
    if len(code.co_code) > MOST_CODE:
        return None
    container, key = "", None
    for step in dis.get_instructions(code):
        if step.offset <= at or step.opname in ("CACHE", "COPY", "DUP_TOP", "EXTENDED_ARG"):
            continue
        operand = (
            step.argval[-1 if step.opname.startswith("LOAD") else 0]
            if isinstance(step.argval, tuple)
            else step.argval
        )
        if step.opname == "STORE_SUBSCR":
            return f"{container}[{key!r}]" if isinstance(key, str) and container else None
        if step.opname.startswith("STORE_") and isinstance(operand, str):
            return operand
        if step.opname in ("RETURN_VALUE", "RETURN"):
            return ""
        if step.opname == "LOAD_CONST":
            key = operand
        elif step.opname.startswith("LOAD_") and isinstance(operand, str):
            container = operand
        else:
            return None
    return None


def names_evaluation(name: str) -> bool:
    """Whether a word of the name begins like "val", "test", "eval" or "dev", such as in testloader."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    return any(_EVALUATES.match(word.lower()) for word in words)


def unique(name: str, known: list[LoaderInfo]) -> str:
    """Return the name, with a number added if another loader has this name."""
    names = {info.name for info in known}
    candidate, count = name, 1
    while candidate in names:
        count += 1
        candidate = f"{name}-{count}"
    return candidate
