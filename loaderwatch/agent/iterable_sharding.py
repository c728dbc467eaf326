"""Whether an iterable dataset deals its rows out among its workers: its code is read for that, and never run.

Each worker iterates a copy of the dataset. One whose code does not ask in which worker it is gives every row once per worker.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from loaderwatch.agent.source import is_script

MOST_LOOKED_AT: Final = 200  # objects of a dataset; of a larger one nothing is said
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
"""Names by which rows are made up: every worker draws other ones."""
ORDERS: Final = frozenset(("shuffle", "randperm", "permutation", "permuted", "sample"))
"""Names by which rows only change their order."""
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
"""Names by which rows may come from something that gives each away once: a queue, a socket, a counter that workers share."""
SPLITTING_INIT: Final = frozenset(("get_worker_info", "dataset"))
"""Names by which a ``worker_init_fn`` reaches for its worker's copy of the dataset."""


def splits_by_worker(dataset: object, worker_init_fn: object = None) -> bool | None:
    """Whether an iterable dataset deals its rows out among the workers of a loader.

    True: its code names workers, or ``worker_init_fn`` reaches for the dataset. False: its code was read, and each worker
    gives all rows. None: it cannot be told, as of a library's stream, of rows that are drawn at random, or of a queue.
    """
    if SPLITTING_INIT & _names_in(worker_init_fn):
        return True
    if not is_script(_file_of(getattr(type(dataset), "__iter__", None))):
        return None
    names: set[str] = set()
    for number, one in enumerate(_parts(dataset)):
        if number == MOST_LOOKED_AT or _may_split_itself(one):
            return None
        names |= _names_in(one)
    if any("worker" in name.lower() for name in names):
        return True
    if names & (DRAWS | TAKES | _stream_packages()) or ("random" in names and not names & ORDERS):
        return None
    return False


def _parts(dataset: object) -> Iterator[object]:
    """The dataset, and what somebody's own code in it leads to: attributes, methods, functions, classes; each once."""
    waiting, seen = [dataset], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += _next_to(one)


def _next_to(one: object) -> list[Any]:
    if type(one) is functools.partial:
        return [one.func, *one.args, *one.keywords.values()]
    if type(one) is MethodType:
        return [one.__func__, one.__self__]
    if type(one) is FunctionType:
        return _reached_by(one)
    if type(one) in (list, tuple):
        return [*one[:16]]  # type: ignore[index]
    if isinstance(one, type):
        bases = (base for base in one.__mro__ if is_script(_file_of_class(base)))
        return [
            getattr(value, "__func__", value)
            for base in bases
            for value in vars(base).values()
            if _is_code(value)
        ]
    if type(one) is ModuleType:
        return []
    return [*_attributes(one), type(one)]


def _attributes(one: object) -> list[Any]:
    try:
        return list(object.__getattribute__(one, "__dict__").values())
    except AttributeError:
        return []


def _reached_by(function: FunctionType) -> list[Any]:
    """Return what a function of somebody's own names: in its module, in modules that it names, and in its closure."""
    if not is_script(function.__code__.co_filename):
        return []
    names = _names_in(function)
    found = [function.__globals__[name] for name in names if name in function.__globals__]
    modules = [
        one
        for one in found
        if isinstance(one, ModuleType) and is_script(getattr(one, "__file__", None) or "")
    ]
    found += [vars(module)[name] for module in modules for name in names if name in vars(module)]
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_full(cell)]
    return [*found, *cells]


def _is_full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True


def _is_code(value: object) -> bool:
    return isinstance(value, (FunctionType, staticmethod, classmethod))


def _may_split_itself(one: object) -> bool:
    """Whether it is a library's stream, or comes from a package that has streams."""
    if type(one) is ModuleType:
        return str(vars(one).get("__name__")).partition(".")[0] in _stream_packages()
    kind = one if isinstance(one, type) else type(one)
    if is_script(_file_of_class(kind)) or kind.__module__.partition(".")[0] in sys.stdlib_module_names:
        return False
    if kind.__module__.partition(".")[0] in _stream_packages():
        return True
    iterated_only = hasattr(kind, "__iter__") and not hasattr(kind, "__getitem__")
    return kind is not one and (iterated_only or _stream_class() in kind.__mro__)


def _stream_packages() -> frozenset[str]:
    """Return the packages whose own streams are loaded; they know of workers. Hugging Face's become PyTorch's only when iterated."""
    found, waiting = {"datasets"}, [_stream_class()]
    while waiting:
        one: type
        for one in type.__subclasses__(waiting.pop()):
            waiting.append(one)
            if not is_script(_file_of_class(one)):
                found.add(one.__module__.partition(".")[0])
    return frozenset(found - {"torch"})


def _stream_class() -> type:
    """Return PyTorch's IterableDataset; where nobody has loaded it, a class that nothing is made from."""
    known: type = getattr(sys.modules.get("torch.utils.data"), "IterableDataset", _NoStream)
    return known


class _NoStream:
    pass


def _names_in(one: object) -> set[str]:
    """Return the names in the code of a function, and in that of functions inside it; none of anything else."""
    if type(one) is functools.partial:
        one = one.func
    return set(_names_of(one.__code__)) if type(one) is FunctionType else set()


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
