"""Live diagnosis of PyTorch input-pipeline stalls: which rank, which worker, which sample, which stack.

The agent needs torch, so the modules behind these names are imported at their first call. A machine that only
shows the page may have no torch, and an unwatched script does not wait for the import.
"""

from __future__ import annotations

import gc
import importlib
from typing import TYPE_CHECKING, Any, TypeVar

from loaderwatch.core import environment_variables as variables
from loaderwatch.core.errors import SampleTimeout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loaderwatch.agent.model.phase import UserPhase
    from loaderwatch.core.facts import Tuning

__all__ = ["SampleTimeout", "__version__", "attach", "detach", "phase", "tune", "url"]

__version__ = "0.1.0"

L = TypeVar("L")

_failed = False


def attach(
    loader: L = None,  # type: ignore[assignment]
    *,
    name: str | None = None,
    role: str = "train",
    model: Any = None,
    optimizer: Any = None,
    run: str | None = None,
    server: str | None = None,
    notify: str | Sequence[str] | None = None,
    sample_timeout: float | None = None,
    on_timeout: str = "raise",
    autotune: bool = False,
) -> L:
    """Watch a loader from its next iteration on.

    A PyTorch DataLoader is watched in place, so the call works as a statement. Any other iterable is returned
    in a transparent wrapper, which must be used instead. Inside a DataLoader worker and with
    LOADERWATCH_DISABLE=1, the call does nothing. A fault of loaderwatch never reaches the training loop.

    Args:
        loader: a DataLoader or any iterable over batches. None watches every DataLoader.
        name: the loader's name on the page; by default, its role.
        role: "train" or "eval".
        model: the module that the loop calls; times forward and backward.
        optimizer: times its steps and detects gradient accumulation.
        run: the run's name, the same on all ranks. By default, it is derived from the launcher's environment.
        server: URL of the server. Without it and without LOADERWATCH_SERVER, a local server is started.
        notify: one or several Apprise addresses, such as "slack://…", that get this run's alerts. They
            replace LOADERWATCH_NOTIFY and add to the server's own addresses. This machine's server sends the
            alerts; the addresses of rank 0 count.
        sample_timeout: seconds that reading one sample of this DataLoader may take (Linux); None: no limit.
        on_timeout: "raise" ends the fetch with SampleTimeout, "skip" leaves the sample out of its batch. Code
            that does not return to Python can only be ended with its worker, 5 s later.
        autotune: between epochs, move ``num_workers`` and ``prefetch_factor`` of this DataLoader towards the
            fewest workers that keep the device fed (docs/tune.md).

    Returns:
        The loader, or its wrapper.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: an argument has a value that cannot be used.
    """
    if variables.DISABLE.read():
        return loader
    # Loading our modules can trigger a full garbage collection: 0.1 s over torch's objects. Avoid it here.
    collects = gc.isenabled()
    gc.disable()
    try:
        agent = _agent()
        if agent is None:
            _check(
                loader,
                name,
                role,
                model,
                optimizer,
                run,
                server,
                notify,
                sample_timeout,
                on_timeout,
                autotune,
            )
            return loader
        watched: L = agent.attach(
            loader, name, role, model, optimizer, run, server, notify, sample_timeout, on_timeout, autotune
        )
    finally:
        if collects:
            gc.enable()
    return watched


def detach(loader: L = None) -> L:  # type: ignore[assignment]
    """Remove the hooks from a loader; without one, from everything.

    Returns:
        The loader; for a wrapper, the loader inside.
    """
    agent = None if variables.DISABLE.read() else _agent()
    if agent is None:
        return loader
    plain: L = agent.detach(loader)
    return plain


def phase(name: str) -> UserPhase:
    """Name a part of the loop, such as "checkpoint": with ``with``, or as a decorator.

    Raises:
        TypeError: the name is not a string.
        ValueError: the name is empty.
    """
    from loaderwatch.agent.model.phase import UserPhase as Phase

    return Phase(name)


def tune(loader: Any, step_s: float | None = None, seconds: float = 60.0) -> Tuning:
    """Read a DataLoader with several settings, without training, to find the smallest that is fast enough.

    Args:
        loader: a ``torch.utils.data.DataLoader``.
        step_s: seconds of a training step. Without a step time, the goal is the smallest setting near the
            best speed.
        seconds: about how long all trials may take.

    Returns:
        The trials, and the advice in ``advised_workers`` and ``advised_prefetch``.

    Raises:
        TypeError: it is not a DataLoader.
        ValueError: a number is not positive.
    """
    from loaderwatch.agent.tuning.tune import tune as _tune

    return _tune(loader, step_s, seconds)


def url() -> str:
    """The page's address, "" without a server. Waits up to 5 seconds for the server to start."""
    agent = None if variables.DISABLE.read() else _agent()
    return "" if agent is None else str(agent.url())


def _agent() -> Any:
    """Return the agent; None, reported once, where it cannot be loaded, e.g. with an unknown PyTorch."""
    global _failed
    if _failed:
        return None
    from loaderwatch.agent.guard import guard, in_own_language, say, shield

    module = shield(importlib.import_module)("loaderwatch.agent.attach")
    if module is None:
        _failed = True
        say(in_own_language("agent-not-loaded", fault=guard.last))
    return module


def _check(*arguments: Any) -> None:
    """Report wrong arguments even where nothing can be watched."""
    from loaderwatch.agent.guard import ask

    module = ask(lambda: importlib.import_module("loaderwatch.agent.arguments"))
    if module is not None:
        module.check_arguments(*arguments)
