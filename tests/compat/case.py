"""One case of the compatibility suite: a small function that is run bare and watched, and must see the same.

Everything here runs in the child process, under any torch >= 2.4 and Python >= 3.10, with nothing of pytest.
"""

from __future__ import annotations

import random
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

import numpy as np
import torch

BARE: Final = "bare"
ATTACHED: Final = "attached"
"""``loaderwatch.attach(loader)``."""
EVERYTHING: Final = "everything"
"""``loaderwatch.attach()``, before anything else."""
RUN: Final = "run"
"""``loaderwatch run``: the case does not name loaderwatch at all."""

FORK: Final = "fork"
FORKSERVER: Final = "forkserver"
SPAWN: Final = "spawn"

_OURS: Final = f"{Path('loaderwatch', 'agent')}/"

L = TypeVar("L")


@dataclass(frozen=True)
class Watcher:
    """Given to a case: called with a loader, it attaches the loader, or does nothing in the bare run."""

    way: str
    method: str

    def __call__(self, loader: L, **arguments: Any) -> L:
        """The loader to iterate."""
        if self.way != ATTACHED:
            return loader
        import loaderwatch

        return loaderwatch.attach(loader, **arguments)

    def detach(self, loader: Any = None) -> None:
        """Take the hooks out again."""
        if self.way == BARE:
            return
        import loaderwatch

        loaderwatch.detach(loader)


Body = Callable[[Watcher], Any]


@dataclass(frozen=True)
class Case:
    """A case, and how it is to be run."""

    body: Body
    methods: tuple[str, ...] = (FORK,)
    ways: tuple[str, ...] = (ATTACHED, EVERYTHING, RUN)
    quick: tuple[str, ...] = (FORK, ATTACHED)  # in these ways with these start methods
    alone: bool = (
        False  # in a process of its own: it may end it; its exit code, stdout and stderr are compared, too
    )
    long: bool = False  # in every way
    needs: tuple[str, ...] = ()  # packages, without which it is skipped
    unwatched: bool = False  # no batch of it is recorded in the main process
    streamer: bool = False  # with a real streamer beside it
    options: tuple[str, ...] = ()  # of the interpreter; for a case that is alone
    keeps: str = ""  # files that PyTorch keeps open after it: nobody waits for their end

    @property
    def name(self) -> str:
        """The function's."""
        return self.body.__name__

    def is_long(self, method: str, way: str) -> bool:
        """Whether this trial is left to ``make compat``, because a fresh import of torch takes seconds."""
        return self.long or not {method, way} <= set(self.quick)


def case(**how: Any) -> Callable[[Body], Body]:
    """Declare a case of its module. Of ``how``, see ``Case``."""

    def declare(body: Body) -> Body:
        registered = sys.modules[body.__module__].__dict__.setdefault("_CASES", {})
        registered[body.__name__] = Case(body, **how)
        return body

    return declare


def cases_of(module: ModuleType) -> dict[str, Case]:
    """The cases of a module, by name."""
    cases: dict[str, Case] = module._CASES
    return cases


def seed() -> None:
    """All three generators of the process, as training scripts do."""
    torch.manual_seed(11)
    random.seed(11)
    np.random.seed(11)


def generators() -> list[Any]:
    """Where the generators of this process stand: what they would give next."""
    return [
        torch.get_rng_state().sum().item(),
        sum(random.getstate()[1]),
        int(np.random.get_state()[1].astype(np.int64).sum()),  # type: ignore[index]
        int(np.random.get_state()[2]),  # type: ignore[index]
    ]


def batches(loader: Iterable[Any], most: int = 10_000) -> list[Any]:
    """What the loader gives, and the error it ends with."""
    seen: list[Any] = []
    try:
        for batch in loader:
            seen.append(batch)
            if len(seen) == most:
                break
    except Exception as error:
        seen.append(_told(error))
    return seen


def failure(call: Callable[[], Any]) -> Any:
    """The error of a call, described; its value, if there is none."""
    try:
        return call()
    except BaseException as error:
        return _told(error)


def _told(error: BaseException) -> Any:
    """Describe an error and release its frames.

    PyTorch makes a cycle when it re-raises a worker's error. The cycle would keep the iterator until a
    collection, from where ending its workers takes PyTorch five seconds each.
    """
    told = described(error)
    traceback.clear_frames(error.__traceback__)
    return told


def described(value: Any) -> Any:
    """A value as JSON that tells types, values and order."""
    if value is None or type(value) in (bool, int):
        return value
    if type(value) is str:
        return plain_text(value)
    if isinstance(value, torch.Tensor):
        return [_kind(value), str(value.dtype), list(value.shape), value.detach().cpu().tolist()]
    if isinstance(value, np.ndarray):
        return [_kind(value), str(value.dtype), list(value.shape), value.tolist()]
    if isinstance(value, BaseException):
        return [_kind(value), plain_text(str(value)), described(list(value.args)), trace_of(value)]
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, Mapping):
        return [_kind(value), [[described(key), described(one)] for key, one in value.items()]]
    if isinstance(value, (list, tuple)):
        return [_kind(value), *(described(one) for one in value)]
    if isinstance(value, (set, frozenset)):
        return [_kind(value), sorted(plain_text(repr(one)) for one in value)]
    return [_kind(value), plain_text(repr(value))]


def trace_of(error: BaseException) -> list[str]:
    """The traceback as a person would see it."""
    text = plain_text("".join(traceback.format_exception(type(error), error, error.__traceback__)))
    return text.splitlines()


def plain_text(text: str) -> str:
    """Text without what differs from process to process.

    Before Python 3.11 a bare ``raise`` restores the traceback as it was caught, with frames of ours.
    """
    if sys.version_info < (3, 11):
        text = re.sub(rf' *File "[^"\n]*{_OURS}[^"\n]*", line \d+, in .*\n(?:    .*\n)?', "", text)
    text = re.sub(r"(?i)\b(pids?|pid\(s\)|process|file_system|torch)([ :=_/-]+)\d+", r"\1\2N", text)
    text = re.sub(r"\b0x[0-9a-f]+", "0xN", text)
    text = re.sub(r"(?<=[/ '\"])(/[\w.-]+)*/tmp[\w.-]*/[\w./-]+", "TMP", text)
    # PyTorch calls a watched model in the line before (Module.compile's)
    text = re.sub(
        r"line \d+, in _wrapped_call_impl\n +return self\._(compiled_)?call_impl.*\n( +\^+\n)?",
        "line N, in _wrapped_call_impl\n",
        text,
    )
    # which worker is quicker decides where the loader finds a batch
    text = re.sub(r"line \d+, in _next_data", "line N, in _next_data", text)
    # PyTorch's log, of ranks in any order; and the streamer's line once it knows that no server answers
    text = re.sub(r"(?m)^(\[rank\d+\]:)?([VIWE])\d{4} \d\d:\d\d:\d\d\.\d+ \d+ (?=[\w.])", r"\2 ", text)
    text = re.sub(r"(?m)^loaderwatch: http://127.0.0.1:9 cannot be reached.*\n", "", text)
    text = re.sub(
        r"(?m)^loaderwatch: tests\.compat\.child (?:crashed|stopped by|ended with exit code) .*\n", "", text
    )
    # a thread of gloo's, in some runs, in a rank that ends by an error (torch 2.14)
    text = re.sub(r"(?m)^terminate called without an active exception\n", "", text)
    # PyTorch's profiler, with a time stamp, and of a build for GPUs where there is none
    text = re.sub(r"(?m)^(USDT:|.*DeviceProperties).*\n", "", text)
    return text


def _kind(value: Any) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"
