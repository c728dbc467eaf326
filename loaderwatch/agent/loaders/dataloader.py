"""The watched DataLoader: the user's object with its class swapped for a subclass of its own class."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final

from torch.utils.data import DataLoader

from loaderwatch.agent.class_swap import hidden_subclass
from loaderwatch.agent.frames import leave_out_ours
from loaderwatch.agent.guard import ask, guard, shield
from loaderwatch.agent.loaders.epoch import Epoch
from loaderwatch.agent.loaders.iterator import (
    WrappedIterator,
    begin_pass,
    is_torch_iterator,
    pass_begun,
    pass_failed,
    reader_of,
    unwatch_iterator,
    watch_iterator,
)
from loaderwatch.agent.loaders.sample_timeout_reader import limit_in_process, limit_iterator
from loaderwatch.agent.loaders.watch import Watch, WatchedPass
from loaderwatch.agent.workers.fetch import watch_fetcher
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.records import EndedBy, IterKind

_classes: Final[weakref.WeakValueDictionary[type, type]] = weakref.WeakValueDictionary()
"""Our subclass of each loader class. Entries end with the loader: frameworks may make a class per loader."""
_watches: Final[dict[int, tuple[weakref.ref[Any], Watch]]] = {}
_iterators: Final[weakref.WeakSet[Any]] = weakref.WeakSet()

adopt: Callable[[Any], None] | None = None
"""Set by ``attach``: watches a loader that was not attached, for example one that a framework rebuilt."""


def watch_of(loader: object) -> Watch | None:
    """Return this loader's watch; None if it has none."""
    entry = _watches.get(id(loader))
    return entry[1] if entry is not None and entry[0]() is loader else None


def is_swapped(loader: object) -> bool:
    """Whether this loader's class is one of ours."""
    return type(loader) in _classes.values()


def watched_loaders() -> list[Any]:
    """Every DataLoader that is watched now."""
    return [loader for ref, _ in list(_watches.values()) if (loader := ref()) is not None]


def watch_loader(loader: Any, watch: Watch) -> None:
    """Swap the loader's class."""
    key = id(loader)
    if not is_swapped(loader):
        loader.__class__ = watched_class(type(loader))
    _watches[key] = (weakref.ref(loader, lambda _: _watches.pop(key, None)), watch)
    watch.reader_of = reader_of
    _watch_kept(loader, watch)


def release(watch: Watch) -> None:
    """Detach a watch from its earlier loaders, because another loader continues it."""
    for key, (_, known) in list(_watches.items()):
        if known is watch:
            del _watches[key]


def unwatch_loader(loader: Any) -> None:
    """Restore the loader's own class."""
    _watches.pop(id(loader), None)
    if is_swapped(loader):
        loader.__class__ = type(loader).__bases__[0]


def unwatch_iterators(watch: Watch) -> None:
    """Restore the own classes of a loader's living iterators."""
    for iterator in list(_iterators):
        epoch = getattr(iterator, "_loaderwatch", None)
        if epoch is not None and epoch.watch is watch:
            epoch.end(EndedBy.BREAK, monotonic_ns(), 0)
            unwatch_iterator(iterator)
            _iterators.discard(iterator)


def watched_class(base: type) -> type:
    """Return our timing subclass of a loader class; there is one for each class."""
    watched = _classes.get(base)
    if watched is None:
        members: dict[str, Any] = {
            "__iter__": _timed_iter(base.__iter__),  # type: ignore[attr-defined]
            "__reduce_ex__": _plain_reduce(base),
            "worker_init_fn": _probed_init(base),
        }
        if hasattr(base, "_get_iterator"):
            members["_get_iterator"] = _building(base._get_iterator)
        # torchdata's StatefulDataLoader uses its sampler for more than indices, so it keeps its sampler.
        if isinstance(getattr(base, "_index_sampler", None), property) and not hasattr(base, "state_dict"):
            members["_index_sampler"] = _timed_sampler(base._index_sampler.fget)  # type: ignore[attr-defined]
        watched = _classes[base] = hidden_subclass(base, members)
    return watched


def _timed_iter(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    begin = shield(_begin)
    begun = shield(_begun)
    failed = shield(_failed)

    def __iter__(self: Any) -> Any:
        started = begin(self)
        try:
            iterator = call(self) if started is None else _passing(self, started[0], call)
        except BaseException as error:
            failed(started, error)
            raise
        finally:
            if started is not None and started[0].tuner is not None:
                started[0].tuner.begun(self)
        if started is None:
            return iterator
        watched = begun(self, started, iterator)
        return iterator if watched is None else watched

    __iter__._torchdynamo_disable = True  # type: ignore[attr-defined]  # never inlined into a compiled loop
    return __iter__


def _passing(loader: Any, watch: Watch, call: Callable[[Any], Any]) -> Any:
    if watch.cached is None or watch.role != "train":
        return call(loader)
    return watch.cached.passing(loader, lambda: call(loader))


def _begin(loader: Any) -> Any:
    if guard.tripped:
        return None
    watch = watch_of(loader)
    if watch is None and adopt is not None:
        adopt(loader)
        watch = watch_of(loader)
    if watch is None:
        return None
    if watch.tuner is not None:
        watch.tuner.before_pass(loader)
    reused = getattr(loader, "_iterator", None) if getattr(loader, "persistent_workers", False) else None
    return watch, begin_pass(watch, reused)


def _begun(loader: Any, started: Any, iterator: Any) -> Any:
    watch, epoch = started
    epoch.workers = getattr(loader, "num_workers", 0)
    built = [inner for ref in watch.built if (inner := ref()) is not None]
    watched = iterator
    if is_torch_iterator(iterator):
        _watch_as(iterator, watch, epoch)
    elif iterator is loader and built and is_torch_iterator(built[-1]):
        _watch_as(built.pop(), watch, epoch)  # the loader is its own iterator and reads PyTorch's
    else:
        watched = WrappedIterator(iterator, epoch)
        if ask(lambda: hasattr(iterator, "_workers") or hasattr(iterator, "_dataset_fetcher")):
            _note_kind(watch, epoch, iterator)  # PyTorch's own, whose base has another name in this version
        else:
            # A subclass's iterator, e.g. a generator. PyTorch's was kept, or is made here or in next().
            if epoch.kind is IterKind.WRAPPED and epoch.workers:
                epoch.kind = IterKind.RESET
            watch.outers.append(epoch)
            for inner in built:
                _note_made(watch, epoch, inner)
            _watch_kept(loader, watch, epoch)
        _iterators.add(watched)
    pass_begun(epoch)
    for inner in built:
        if inner is not watched and is_torch_iterator(inner) and "_loaderwatch" not in vars(inner):
            _watch_as(inner, watch, Epoch(watch, watch.recorder))
    return watched


def _watch_as(iterator: Any, watch: Watch, epoch: Epoch) -> None:
    """Watch PyTorch's own iterator as this pass."""
    epoch.read = reader_of(iterator)
    _note_kind(watch, epoch, iterator)
    watch_iterator(iterator, epoch)
    _iterators.add(iterator)


def _watch_kept(loader: Any, watch: Watch, outer: Epoch | None = None) -> None:
    """Watch PyTorch's iterators that a subclass keeps in its own attributes, made before the watch began.

    The iterator that PyTorch keeps for persistent workers is left out, because each pass resets it.
    """
    for name, kept in list(object.__getattribute__(loader, "__dict__").items()):
        if name == "_iterator" or not is_torch_iterator(kept):
            continue
        if "_loaderwatch" not in vars(kept):
            epoch = Epoch(watch, watch.recorder)
            epoch.kind = IterKind.RESET  # if it has workers, they were started long ago
            _watch_as(kept, watch, epoch)
        if outer is not None and kept is watch.inner() and getattr(kept, "_task_info", None):
            outer.read_from(kept)


def _failed(started: Any, error: BaseException) -> None:
    if started is not None:
        _, epoch = started
        pass_failed(epoch)
    leave_out_ours(error)


def _note_kind(watch: Watch, epoch: Any, iterator: Any) -> None:
    if hasattr(iterator, "_workers"):
        if epoch.kind is not IterKind.RESET:
            epoch.kind = IterKind.REBUILT if watch.made_anew else IterKind.STARTED
            watch.made_anew = False
    elif hasattr(iterator, "_dataset_fetcher"):
        epoch.kind = IterKind.IN_PROCESS
        watch_fetcher(iterator._dataset_fetcher, watch.in_process_fetch())
        limit_in_process(iterator._dataset_fetcher, watch)


def _building(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    begin = shield(_begin_building)
    limit = shield(limit_iterator)
    built = shield(_built)
    failed = shield(_failed)

    def _get_iterator(self: Any) -> Any:
        watch = watch_of(self)
        if watch is None:
            return call(self)
        started = begin(watch)
        was_building, watch.building = watch.building, True
        try:
            iterator = call(self)
        except BaseException as error:
            failed(started, error)
            raise
        finally:
            watch.building = was_building
        if is_torch_iterator(iterator):
            limit(iterator, watch)
        built(watch, started, iterator)
        return iterator

    return _get_iterator


def _begin_building(watch: Watch) -> Any:
    """Begin an epoch when ``_get_iterator`` is entered, unless ``iter(loader)`` has already begun one."""
    return None if guard.tripped or watch.beginning else (watch, begin_pass(watch))


def _built(watch: Watch, started: Any, iterator: Any) -> None:
    if started is None:
        if watch.beginning:
            watch.built.append(weakref.ref(iterator))
        return
    _, epoch = started
    pass_begun(epoch)
    for outer in watch.outers:
        if outer.waits:  # this call is inside next() of the generator's pass
            _note_made(watch, outer, iterator)
            outer.read_from(iterator)
    if is_torch_iterator(iterator):
        epoch.workers = getattr(iterator, "_num_workers", 0)
        _watch_as(iterator, watch, epoch)


def _note_made(watch: Watch, outer: WatchedPass, iterator: Any) -> None:
    """Note that PyTorch's iterator was made for this pass."""
    outer.kind = IterKind.WRAPPED
    _note_kind(watch, outer, iterator)


def _probed_init(base: type) -> property:
    own = getattr(base, "worker_init_fn", None)

    def read(self: Any) -> Any:
        init = (
            own.fget(self) if isinstance(own, property) and own.fget else self.__dict__.get("worker_init_fn")
        )
        watch = watch_of(self)
        if watch is None or not watch.building or watch.make_probe is None:
            return init
        return shield(watch.make_probe)(watch.loader, init, watch.limit) or init

    def write(self: Any, init: Any) -> None:
        if isinstance(own, property) and own.fset:
            own.fset(self, init)
        else:
            self.__dict__["worker_init_fn"] = init

    return property(read, write)


def _timed_sampler(own: Callable[[Any], Any]) -> property:
    def read(self: Any) -> Any:
        sampler = own(self)
        watch = watch_of(self)
        if watch is None or not watch.building:
            return sampler
        return TimedSampler(sampler, watch)

    return property(read)


class TimedSampler:
    """Times a sampler's first index; replaces a loader's index sampler while its iterator is built.

    A ``randperm`` of a hundred million takes seconds in every epoch. The sampler gets the loader's calls in
    the same order: ``iter()`` at once, each index when needed. So random numbers are drawn as before.
    """

    def __init__(self, sampler: Any, watch: Watch) -> None:
        self._sampler = sampler
        self._watch = watch

    def __iter__(self) -> Iterator[Any]:
        began = monotonic_ns()
        indices = iter(self._sampler)
        # Chained, so that none of our code runs for the indices after the first.
        return chain.from_iterable(self._timed(indices, monotonic_ns() - began))

    def _timed(self, indices: Iterator[Any], spent_ns: int) -> Iterator[Iterable[Any]]:
        began = monotonic_ns()
        try:
            first = next(indices)
        except StopIteration:
            return
        finally:
            self._watch.sampler_ns = monotonic_ns() - began + spent_ns
        yield (first,)
        yield indices

    def __len__(self) -> int:
        return len(self._sampler)

    def __getattr__(self, name: str) -> Any:
        if name == "_sampler":  # read while this object is copied or unpickled
            raise AttributeError(name)
        return getattr(self._sampler, name)


def _plain_reduce(base: Any) -> Callable[[Any, Any], Any]:
    """Give pickles and copies the user's own class: a watch belongs to one object in one process."""

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        reduced = base.__reduce_ex__(self, protocol)
        names = vars(type(self)).get("__slotnames__")
        if names is not None and "__slotnames__" not in vars(base):
            base.__slotnames__ = names  # copyreg caches them in the class; without us, in the loader's own
        if not isinstance(reduced, tuple):
            return reduced
        watched = type(self)
        own = watched.__bases__[0]
        function, arguments, *rest = reduced
        arguments = tuple(own if argument is watched else argument for argument in arguments)
        if function.__name__ == "__newobj__":
            # pickle requires that ``__newobj__`` makes an object of exactly the given class.
            function = own.__new__
        return (own if function is watched else function, arguments, *rest)

    return __reduce_ex__


def is_dataloader(loader: object) -> bool:
    """Whether this object's class can be swapped. ``isinstance`` is not enough: a wrapper may pass it."""
    return issubclass(type(loader), DataLoader)


def held_by(loader: Any) -> Any:
    """Return the DataLoader inside an accelerate loader (also used by transformers); None for other loaders.

    For ``isinstance``, accelerate's loaders have the class of the loader that they hold.
    """
    if is_dataloader(loader) or not isinstance(loader, DataLoader):
        return None
    held = getattr(loader, "base_dataloader", None)
    return held if is_dataloader(held) else None
