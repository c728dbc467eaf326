"""Hides our hooks and frames from PyTorch's compilers, torch.compile and TorchScript.

torch.compile traces an empty function in place of each hook on the model (``Hook.func``) and skips our other
frames. Compiling those frames would cost seconds and print warnings about calls that the user never made.
TorchScript would compile a module's hooks and properties, and ours are not valid TorchScript. So our hooks
are removed while a module, alone or as part of another one, is scripted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from types import CodeType, FunctionType
from typing import Any, Final

import torch

from loaderwatch.agent.guard import ask
from loaderwatch.agent.hot import CallsOf
from loaderwatch.agent.hot.calls import FIELD

_hidden: Final[set[str]] = set()  # modules
_own_create: Any = None  # PyTorch's create_script_module, while ours replaces it


class Hook(partial[None]):
    """A hook of ours on the user's model or optimizer. It raises nothing and returns nothing.

    It is a ``partial`` without arguments, so it needs no Python frame of its own. Copies of the user's object
    in this process share the hook until it is silenced. A pickle contains a function of the standard library
    instead, which takes anything and returns None: pickles must load where loaderwatch is not installed.
    """

    @property
    def func(self) -> Callable[..., None]:
        """The empty function that torch.compile traces instead, so the user's graph stays whole."""
        return _nothing

    def aim(self, function: Callable[..., None]) -> None:
        """Call another function from now on."""
        self.__setstate__((function, (), {}, None))  # type: ignore[attr-defined]

    def silence(self) -> None:
        """Do nothing from now on."""
        self.aim(_nothing)

    def __deepcopy__(self, memo: object) -> Hook:
        return self

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return getattr, (nullcontext, "__exit__")


def _nothing(*_: object) -> None:
    pass


def hide_from_compile() -> None:
    """Make torch.compile run our frames uncompiled. Later-loaded modules of ours need another call."""
    skip = ask(_skipper)
    if skip is None:
        return  # this version of PyTorch has another name for the function
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "loaderwatch" and name not in _hidden:
            _hidden.add(name)
            for code in _codes_of(module):
                skip(code)


def _skipper() -> Callable[[CodeType], None]:
    """Return torch.compile's own function for skipping code, without importing the rest of torch.compile."""
    compiled: Any = torch._C._dynamo.eval_frame
    if hasattr(compiled, "skip_code"):  # older versions
        skip: Callable[[CodeType], None] = compiled.skip_code
        return skip
    action = compiled._FrameAction
    strategy = compiled._FrameExecStrategy(action.SKIP, action.DEFAULT)
    return lambda code: compiled.set_code_exec_strategy(code, strategy)


def _codes_of(module: Any) -> Iterator[CodeType]:
    parts = [
        part
        for member in vars(module).values()
        if getattr(member, "__module__", None) == module.__name__
        for part in (vars(member).values() if isinstance(member, type) else (member,))
    ]
    codes = [part.__code__ for part in parts if isinstance(part, FunctionType)]
    while codes:
        code = codes.pop()
        yield code
        codes.extend(constant for constant in code.co_consts if isinstance(constant, CodeType))


def hide_from_script() -> None:
    """Remove our hooks while TorchScript compiles a module."""
    global _own_create
    # A private function is replaced, because other names may already be bound to torch.jit.script.
    recursive: Any = getattr(torch.jit, "_recursive", None)
    own = getattr(recursive, "create_script_module", None)
    if _own_create is not None or own is None:
        return

    def create_script_module(nn_module: Any, *args: Any, **kwargs: Any) -> Any:
        with _hooks_aside(nn_module):
            return own(nn_module, *args, **kwargs)

    _own_create = own
    recursive.create_script_module = create_script_module


def show_to_script() -> None:
    """Restore PyTorch's own function."""
    global _own_create
    if _own_create is not None:
        recursive: Any = torch.jit._recursive
        recursive.create_script_module = _own_create
        _own_create = None


@contextmanager
def _hooks_aside(module: Any) -> Iterator[None]:
    hooks_of: list[tuple[Any, list[Any]]] = []
    timed: dict[type[Any], CallsOf] = {}
    modules = ask(lambda: list(module.modules())) or []
    try:
        for kind in {kind for submodule in modules for kind in type(submodule).__mro__}:
            calls = vars(kind).get(FIELD)
            if isinstance(calls, CallsOf):
                timed[kind] = calls
                delattr(kind, FIELD)
        for submodule in modules:
            for name in ("_forward_pre_hooks", "_forward_hooks"):
                hooks = vars(submodule).get(name, {})
                if any(isinstance(hook, Hook) for hook in hooks.values()):
                    hooks_of.append((hooks, list(hooks.items())))
        for hooks, items in hooks_of:
            for key, hook in items:
                if isinstance(hook, Hook):
                    del hooks[key]
        yield
    finally:
        for kind, calls in timed.items():
            if calls.calls and FIELD not in vars(kind):  # no detach in the meantime
                setattr(kind, FIELD, calls)
        for hooks, items in hooks_of:  # keeps their order
            hooks.clear()
            hooks.update(items)
