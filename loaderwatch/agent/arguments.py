"""Checks the arguments of ``attach``: a wrong argument raises at once, and the message names it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from torch.utils.data import DataLoader, IterableDataset

from loaderwatch.agent.process.identity import slugged
from loaderwatch.agent.workers.fetch import reads_at_once
from loaderwatch.core.environment_variables import ADDRESSES, URL

ROLES: Final = ("train", "eval")
ON_TIMEOUT: Final = ("raise", "skip")


def check_arguments(
    loader: object,
    name: object,
    role: object,
    model: Any,
    optimizer: Any,
    run: object,
    server: object,
    notify: object,
    sample_timeout: object,
    on_timeout: object,
    autotune: object,
) -> None:
    """Raise TypeError or ValueError for the first argument with a wrong type or an unusable value."""
    if loader is not None and (not hasattr(type(loader), "__iter__") or isinstance(loader, (str, bytes))):
        raise TypeError(f"loader is {_shown(loader)}; pass a DataLoader or another iterable over batches")
    if isinstance(loader, type):
        raise TypeError(f"loader is the class {loader.__name__}; pass an object made of it")
    if isinstance(loader, (list, tuple, dict, set)) and any(map(_is_loader, _members(loader))):
        raise TypeError(f"loader is a {type(loader).__name__} of DataLoaders; attach each of them by itself")
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name is {_shown(name)}; use a string")
    if name is not None and (not name.strip() or len(name) > 100):
        raise ValueError(f"name is {name[:120]!r}; use 1 to 100 characters")
    if role not in ROLES:
        raise ValueError(f"role is {_shown(role)}; use 'train' or 'eval'")
    for argument, value in (("model", model), ("optimizer", optimizer)):
        if isinstance(value, type):
            raise TypeError(f"{argument} is the class {value.__name__}; pass an object made of it")
    if model is not None and not _is_module(model):
        raise TypeError(f"model is {_shown(model)}; pass the torch.nn.Module that the loop calls")
    if optimizer is not None and not callable(getattr(optimizer, "step", None)):
        raise TypeError(f"optimizer is {_shown(optimizer)}; pass a torch.optim.Optimizer (it needs step())")
    if run is not None and not isinstance(run, str):
        raise TypeError(f"run is {_shown(run)}; use a string")
    if run is not None and not slugged(run):
        raise ValueError(f"run is {run!r}; use a name with letters or digits, such as 'resnet-lr3'")
    if server is not None and not isinstance(server, str):
        raise TypeError(f"server is {_shown(server)}; use {URL.allowed}")
    if server is not None:
        URL.parse(server, "server")
    given_addresses(notify)
    _check_limit(loader, sample_timeout, on_timeout)
    if not isinstance(autotune, bool):
        raise TypeError(f"autotune is {_shown(autotune)}; use True or False")
    if autotune and not _is_loader(loader):
        raise ValueError(
            f"autotune needs a PyTorch DataLoader, which has workers; loader is {_shown(loader)}"
        )


def given_addresses(notify: object) -> tuple[str, ...] | None:
    """Return the addresses of ``attach(notify=)``, None if not given. Errors do not show them: secrets.

    Raises:
        TypeError: ``notify`` is neither a string nor a sequence of strings.
        ConfigError: an address does not have the form ``scheme://…``.
    """
    if notify is None:
        return None
    if isinstance(notify, str):
        return ADDRESSES.parse(notify, "notify")
    if not isinstance(notify, Sequence) or isinstance(notify, (bytes, bytearray)):
        raise TypeError(
            f"notify is a {type(notify).__name__};"
            " use an Apprise address such as 'slack://…', or a list of them"
        )
    addresses: list[str] = []
    for number, address in enumerate(notify):
        if not isinstance(address, str):
            raise TypeError(f"notify[{number}] is a {type(address).__name__}; use an Apprise address")
        addresses += ADDRESSES.parse(address, f"notify[{number}]")
    return tuple(addresses)


def _check_limit(loader: Any, seconds: object, on_timeout: object) -> None:
    if on_timeout not in ON_TIMEOUT:
        raise ValueError(f"on_timeout is {_shown(on_timeout)}; use 'raise' or 'skip'")
    if seconds is None:
        if on_timeout != "raise":
            raise ValueError(f"on_timeout is {on_timeout!r} without a sample_timeout; pass the seconds, too")
        return
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        raise TypeError(f"sample_timeout is {_shown(seconds)}; use a number of seconds, such as 60")
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"sample_timeout is {seconds!r}; use a number of seconds above 0, such as 60")
    if not _is_loader(loader):
        raise ValueError(
            "sample_timeout needs a PyTorch DataLoader, whose samples it can tell apart;"
            f" loader is {_shown(loader)}. Attach the DataLoader itself"
        )
    if on_timeout == "skip":
        _check_skip(loader)


def _check_skip(loader: Any) -> None:
    """Raise if no single sample can be left out of a batch of this loader."""
    kind = type(loader.dataset).__name__
    is_iterable = isinstance(loader.dataset, IterableDataset)
    has_no_batches = loader.batch_size is None and loader.batch_sampler is None
    if is_iterable or has_no_batches or reads_at_once(loader.dataset):
        raise ValueError(
            "on_timeout='skip' cannot leave a sample out here: "
            + (
                f"{kind} is an IterableDataset, whose iterator an interruption may end"
                if is_iterable
                else "the loader has batch_size=None, so that each sample is a whole batch"
                if has_no_batches
                else f"{kind} has __getitems__, which reads all samples of a batch at once"
            )
            + "; use on_timeout='raise'"
        )


def _members(loaders: Any) -> list[object]:
    return list(loaders.values()) if isinstance(loaders, dict) else list(loaders)


def _is_loader(value: object) -> bool:
    return isinstance(value, DataLoader)


def _is_module(model: Any) -> bool:
    return all(
        callable(getattr(model, name, None))
        for name in ("register_forward_hook", "register_forward_pre_hook")
    )


def _shown(value: object) -> str:
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"
