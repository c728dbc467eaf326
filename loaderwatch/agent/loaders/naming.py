"""Names for loaders that nobody named: the variable in the script, else the dataset's class."""

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
"""The largest dictionary that is searched for loaders; a larger one holds data."""
MOST_LETTERS: Final = 60
MOST_CODE: Final = 100_000
"""Bytes of one function, or of a script outside its functions, that are looked through for a name."""
_SAYS_NOTHING: Final = ("loader", "dataloader", "data_loader", "dl", "data", "result", "self")
_EVALUATES: Final = re.compile(r"val(?!ue)|test|eval|dev(?!ic)")


def name_of(loader: Any) -> str:
    """Return the variable that holds the loader in the script, else the class of its dataset.

    Of several variables (and attributes of self) the outermost counts, not some function's parameter. Use this only in
    a process that does not train afterwards: up to Python 3.12, looking at a frame's variables keeps them alive.
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


def name_made(made: Made | None, loader: Any, role: str) -> str:
    """Return the name that the code stores the new loader under; else a name made of its role and its dataset.

    No variables are looked at.
    """
    returned_by = None
    for code, at in made.calls if made is not None else ():
        found = ask(lambda code=code, at=at: _stored_as(code, at))  # type: ignore[misc]
        if found and found.strip("_").lower() not in _SAYS_NOTHING:
            return found[:MOST_LETTERS]
        if found != "":
            break
        if returned_by is None and (names_evaluation(code.co_name) or "train" in code.co_name):
            returned_by = code.co_name
    if returned_by is not None:
        return returned_by[:MOST_LETTERS]
    kind = type(ask(lambda: loader.dataset)).__name__
    return f"{'training' if role == 'train' else 'validation'} loader ({kind})"


@functools.lru_cache(256)
def _stored_as(code: CodeType, at: int) -> str | None:
    """Return the name that the result of the call at this instruction is stored under, "" if it is returned, else None."""
    if len(code.co_code) > MOST_CODE:
        return None
    around, key = "", None
    for one in dis.get_instructions(code):
        if one.offset <= at or one.opname in ("CACHE", "COPY", "DUP_TOP", "EXTENDED_ARG"):
            continue
        said = (
            one.argval[-1 if one.opname.startswith("LOAD") else 0]
            if isinstance(one.argval, tuple)
            else one.argval
        )
        if one.opname == "STORE_SUBSCR":
            return f"{around}[{key!r}]" if isinstance(key, str) and around else None
        if one.opname.startswith("STORE_") and isinstance(said, str):
            return said
        if one.opname in ("RETURN_VALUE", "RETURN"):
            return ""
        if one.opname == "LOAD_CONST":
            key = said
        elif one.opname.startswith("LOAD_") and isinstance(said, str):
            around = said
        else:
            return None
    return None


def names_evaluation(name: str) -> bool:
    """Whether a word of the name begins like a word for evaluation: val_loader, testloader, loaders['dev']."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    return any(_EVALUATES.match(word.lower()) for word in words)


def unique(name: str, known: list[LoaderInfo]) -> str:
    """Return the name, with a number behind it if another loader has it already."""
    names = {info.name for info in known}
    candidate, count = name, 1
    while candidate in names:
        count += 1
        candidate = f"{name}-{count}"
    return candidate
