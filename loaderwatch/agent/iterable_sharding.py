"""Whether an iterable dataset splits its rows among its workers. The dataset's code is read, never run.

Each worker iterates a copy of the dataset. Code that ignores the worker's number gives all rows in each.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from loaderwatch.agent.source import is_script

MOST_LOOKED_AT: Final = 200  # objects of a dataset; a larger dataset gets no answer
DRAWS: Final = frozenset(
    [
        "rand",
        "randn",
        "randint",
        "randrange",
        "randbytes",
        "integers",
        "choice",
        "choices",
        "uniform",
        "normal",
        "standard_normal",
        "gauss",
        "multinomial",
        "getpid",
        "urandom",
        "uuid4",
    ]
)
"""Names of functions that generate rows at random: every worker draws other rows."""
ORDERS: Final = frozenset(("shuffle", "randperm", "permutation", "permuted", "sample"))
"""Names of functions that only change the order of rows."""
TAKES: Final = frozenset(
    [
        "get",
        "get_nowait",
        "recv",
        "recv_into",
        "receive",
        "poll",
        "consume",
        "pop",
        "popleft",
        "accept",
        "acquire",
        "get_lock",
        "value",
        "stdin",
        "urlopen",
    ]
)
"""Names that read a source which gives each row only once: a queue, a socket, a counter shared by workers."""
SPLITTING_INIT: Final = frozenset(("get_worker_info", "dataset"))
"""Names with which a ``worker_init_fn`` accesses its worker's copy of the dataset."""


def splits_by_worker(dataset: object, worker_init_fn: object = None) -> bool | None:
    """Whether an iterable dataset splits its rows among the workers of a loader.

    True: the dataset's code names workers, or ``worker_init_fn`` accesses the dataset. False: the code gives
    all rows in each worker. None: unknown, as for a library's stream, random rows or a queue.
    """
    if SPLITTING_INIT & _names_in(worker_init_fn):
        return True
    if not is_script(_file_of(getattr(type(dataset), "__iter__", None))):
        return None
    names: set[str] = set()
    for number, part in enumerate(_parts(dataset)):
        if number == MOST_LOOKED_AT or _may_split_itself(part):
            return None
        names |= _names_in(part)
    if any("worker" in name.lower() for name in names):
        return True
    if names & (DRAWS | TAKES | _stream_packages()) or ("random" in names and not names & ORDERS):
        return None
    return False


def _parts(dataset: object) -> Iterator[object]:
    """The dataset and all objects that the user's code in it reaches (attributes, functions, classes)."""
    waiting, seen = [dataset], set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        waiting += _next_to(part)


def _next_to(part: object) -> list[Any]:
    if type(part) is functools.partial:
        return [part.func, *part.args, *part.keywords.values()]
    if type(part) is MethodType:
        return [part.__func__, part.__self__]
    if type(part) is FunctionType:
        return _reached_by(part)
    if type(part) in (list, tuple):
        return [*part[:16]]  # type: ignore[index]
    if isinstance(part, type):
        bases = (base for base in part.__mro__ if is_script(_file_of_class(base)))
        return [
            getattr(value, "__func__", value)
            for base in bases
            for value in vars(base).values()
            if _is_code(value)
        ]
    if type(part) is ModuleType:
        return []
    return [*_attributes(part), type(part)]


def _attributes(part: object) -> list[Any]:
    try:
        return list(object.__getattribute__(part, "__dict__").values())
    except AttributeError:
        return []


def _reached_by(function: FunctionType) -> list[Any]:
    """Return what a function of the script names: globals, contents of its modules, closure values."""
    if not is_script(function.__code__.co_filename):
        return []
    names = _names_in(function)
    reached = [function.__globals__[name] for name in names if name in function.__globals__]
    modules = [
        value
        for value in reached
        if isinstance(value, ModuleType) and is_script(getattr(value, "__file__", None) or "")
    ]
    reached += [vars(module)[name] for module in modules for name in names if name in vars(module)]
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_full(cell)]
    return [*reached, *cells]


def _is_full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True


def _is_code(value: object) -> bool:
    return isinstance(value, (FunctionType, staticmethod, classmethod))


def _may_split_itself(part: object) -> bool:
    """Whether this object is a library's stream or comes from a package that has streams."""
    if type(part) is ModuleType:
        return str(vars(part).get("__name__")).partition(".")[0] in _stream_packages()
    kind = part if isinstance(part, type) else type(part)
    if is_script(_file_of_class(kind)) or kind.__module__.partition(".")[0] in sys.stdlib_module_names:
        return False
    if kind.__module__.partition(".")[0] in _stream_packages():
        return True
    iterated_only = hasattr(kind, "__iter__") and not hasattr(kind, "__getitem__")
    return kind is not part and (iterated_only or _stream_class() in kind.__mro__)


def _stream_packages() -> frozenset[str]:
    """Return the loaded packages with streams. Hugging Face's become PyTorch's only during iteration."""
    packages, waiting = {"datasets"}, [_stream_class()]
    while waiting:
        stream: type
        for stream in type.__subclasses__(waiting.pop()):
            waiting.append(stream)
            if not is_script(_file_of_class(stream)):
                packages.add(stream.__module__.partition(".")[0])
    return frozenset(packages - {"torch"})


def _stream_class() -> type:
    """Return PyTorch's IterableDataset; if it is not loaded, a class without instances."""
    known: type = getattr(sys.modules.get("torch.utils.data"), "IterableDataset", _NoStream)
    return known


class _NoStream:
    pass


def _names_in(function: object) -> set[str]:
    """Return the names in the code of a function and its inner functions; none for other objects."""
    if type(function) is functools.partial:
        function = function.func
    return set(_names_of(function.__code__)) if type(function) is FunctionType else set()


def _names_of(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    yield from code.co_varnames
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_of(constant)


def _file_of(function: object) -> str:
    code = getattr(function, "__code__", None)
    return code.co_filename if isinstance(code, CodeType) else ""


def _file_of_class(kind: type) -> str:
    return str(getattr(sys.modules.get(kind.__module__), "__file__", None) or "")
