"""The wrapper of loaders that are not PyTorch's. Only ``type()`` distinguishes it from the loader."""

from __future__ import annotations

from typing import Any, Final

from loaderwatch.agent.frames import leave_out_ours
from loaderwatch.agent.guard import guard, shield
from loaderwatch.agent.hot import timed_next
from loaderwatch.agent.loaders.iterator import WrappedIterator, begin_pass, pass_begun, pass_failed
from loaderwatch.agent.loaders.watch import Watch

_DELEGATED: Final = (
    "__len__",
    "__getitem__",
    "__contains__",
    "__bool__",
    "__reversed__",
    "__call__",
    "__enter__",
    "__exit__",
    "__eq__",
    "__hash__",
    "__repr__",
    "__str__",
)
_classes: Final[dict[type, type]] = {}


class WrappedLoader:
    """Wraps any iterable and times its ``iter`` and ``next``. Everything else is delegated."""

    def __init__(self, target: Any, watch: Watch) -> None:
        object.__setattr__(self, "_target", target)
        object.__setattr__(self, "_watch", watch)
        object.__setattr__(self, "_loaderwatch", None)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The loader's own class, so that isinstance() holds."""
        return type(self._target)

    def __iter__(self) -> Any:
        open_epoch = self._loaderwatch
        if guard.tripped or self._watch.closed or (open_epoch is not None and open_epoch.ended is None):
            # iter() of an iterator that is already being read continues its pass.
            iterator = iter(self._target)
            return self if iterator is self._target else iterator
        epoch = _begin(self._watch)
        try:
            iterator = iter(self._target)
        except BaseException as error:
            if epoch is not None:
                _begin_failed(epoch)
            _leave_out_ours(error)
            raise
        if epoch is None:
            return iterator
        _begun(epoch)
        if iterator is self._target:
            object.__setattr__(self, "_loaderwatch", epoch)
            return self
        return WrappedIterator(iterator, epoch)

    def __getattr__(self, name: str) -> Any:
        if name in ("_target", "_watch", "_loaderwatch"):
            raise AttributeError(name)
        return getattr(self._target, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._target, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._target, name)

    def __dir__(self) -> list[str]:
        return dir(self._target)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._target.__reduce_ex__(protocol)


_begin = shield(begin_pass)
_begun = shield(pass_begun)
_begin_failed = shield(pass_failed)
_leave_out_ours = shield(leave_out_ours)


def wrap_loader(target: Any, watch: Watch) -> Any:
    """Return a wrapper of this loader."""
    base = type(target)
    wrapper = _classes.get(base)
    if wrapper is None:
        namespace: dict[str, Any] = {name: _delegate(name) for name in _DELEGATED if hasattr(base, name)}
        namespace["__module__"] = base.__module__
        namespace["__qualname__"] = base.__qualname__
        namespace["__doc__"] = base.__doc__
        if base.__hash__ is None:
            namespace["__hash__"] = None
        if hasattr(base, "__next__"):
            namespace["__next__"] = _next
        wrapper = _classes[base] = type(base.__name__, (WrappedLoader,), namespace)
    return wrapper(target, watch)


def is_wrapped(loader: object) -> bool:
    """Whether this is one of our wrappers."""
    return issubclass(type(loader), WrappedLoader)


def unwrapped(loader: Any) -> Any:
    """Return the loader inside a wrapper."""
    return object.__getattribute__(loader, "_target")


def _delegate(name: str) -> Any:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(type(self._target), name)(self._target, *args, **kwargs)

    call.__name__ = name
    return call


_timed = timed_next(lambda self: next(self._target))


def _next(self: Any) -> Any:
    """Time ``next`` of a loader that is its own iterator. Such a loader may begin a pass without ``iter``."""
    epoch = self._loaderwatch
    if not guard.tripped and not self._watch.closed and (epoch is None or epoch.ended is not None):
        epoch = _begin(self._watch)
        if epoch is not None:
            _begun(epoch)
            object.__setattr__(self, "_loaderwatch", epoch)
    if epoch is None or self._watch.closed:
        return next(self._target)
    return _timed(self)
