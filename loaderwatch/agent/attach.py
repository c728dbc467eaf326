"""``attach``, ``detach`` and ``url``: ``import loaderwatch`` loads this module when one of them is called."""

from __future__ import annotations

import dataclasses
import multiprocessing
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, cast

import msgspec
from torch.utils.data import get_worker_info

from loaderwatch.agent import prefetch_thread_waits
from loaderwatch.agent.arguments import check_arguments, given_addresses
from loaderwatch.agent.guard import guard, in_own_language, shield
from loaderwatch.agent.launcher.unwatched import found
from loaderwatch.agent.loader_description import describe_loader, synced_buffers
from loaderwatch.agent.loaders import construction, dataloader, roles, substitutes
from loaderwatch.agent.loaders.cached_batches import CachedBatches, cached_batches
from loaderwatch.agent.loaders.naming import name_made
from loaderwatch.agent.loaders.sample_timeout_reader import end_limit, set_limit
from loaderwatch.agent.loaders.step_loop import StepLoop
from loaderwatch.agent.loaders.watch import Watch, epoch_check
from loaderwatch.agent.loaders.wrapper import is_wrapped, unwrapped, wrap_loader
from loaderwatch.agent.model.compilers import hide_from_compile, hide_from_script, show_to_script
from loaderwatch.agent.model.discovery import Scout
from loaderwatch.agent.model.hooks import StepHooks
from loaderwatch.agent.process.printed_once import say_once
from loaderwatch.agent.session import Session, current_session, open_session
from loaderwatch.agent.tuning.autotune import autotune as autotuned
from loaderwatch.core.config import Settings, load_settings
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.facts import LoaderInfo, LoaderRole
from loaderwatch.core.files import check_own, private_folder, write_atomically
from loaderwatch.core.server_file import own_server
from loaderwatch.core.server_trust import is_there


def leave_addresses(session: Session, given: tuple[str, ...] | None) -> None:
    """Write the addresses ``given`` to ``attach``, else those of LOADERWATCH_NOTIFY.

    Without any, an earlier run's file is removed. Only rank 0 writes. Later calls without any do nothing.
    """
    if session.info.rank != 0 or (given is None and session.addresses is not None):
        return
    session.addresses = session.settings.notify if given is None else given
    _hide_in_arguments(session, session.addresses)
    path = session.settings.notify_dir / f"{session.run.run_id}.json"
    try:
        if session.addresses:
            check_own(private_folder(path.parent))
            write_atomically(path, msgspec.json.encode(session.addresses))
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        why = str(error.strerror)
        say_once(in_own_language("addresses-not-written", folder=str(path.parent), why=why))


def _hide_in_arguments(session: Session, addresses: tuple[str, ...]) -> None:
    """Remove the addresses from the arguments that the page shows: scripts may receive them there."""
    argv = session.info.argv
    for address in addresses:
        argv = [argument.replace(address, f"{address.partition('://')[0]}://…") for argument in argv]
    if argv != session.info.argv:
        session.change(argv=argv)


URL_WAIT_S: Final = 5.0
_ANSWERS_WITHIN_S: Final = 1.0
"""Longest wait for the server in one attempt of ``url``, in s: several attempts fit in ``URL_WAIT_S``."""

_wrappers: Final[list[Any]] = []
_everywhere: Final[list[StepHooks | None]] = []  # the hooks of each attach(None)
_hooks: StepHooks | None = None
_scout: Scout | None = None  # finds models and optimizers that attach() was not given
_server: str | None = None  # attach(server=)


def attach(
    loader: Any,
    name: str | None,
    role: str,
    model: Any,
    optimizer: Any,
    run: str | None,
    server: str | None,
    notify: str | Sequence[str] | None = None,
    sample_timeout: float | None = None,
    on_timeout: str = "raise",
    autotune: bool = False,
) -> Any:
    """See ``loaderwatch.attach``."""
    check_arguments(
        loader, name, role, model, optimizer, run, server, notify, sample_timeout, on_timeout, autotune
    )
    if guard.tripped or get_worker_info() is not None:
        return loader
    settings = _settings(server)
    if is_being_spawned():
        return loader  # this import of the main script may be for a DataLoader worker
    found()
    faults = guard.faults
    session = shield(open_session, passing=ConfigError)(settings, run)
    if session is None:
        if guard.faults > faults:
            say_once(in_own_language("unwatched-for-fault", fault=guard.last))
        if sample_timeout is not None:
            say_once(in_own_language("limit-of-unwatched-run", option=f"sample_timeout={sample_timeout:g}"))
        return loader
    faults = guard.faults
    shield(leave_addresses)(session, given_addresses(notify))
    watched = shield(_attach)(session, loader, name, cast("LoaderRole", role), model, optimizer)
    if sample_timeout is not None:
        shield(_limit)(session, loader, sample_timeout, on_timeout)
    if autotune:
        shield(_tune)(session, loader)
    if guard.faults > faults:
        say_once(in_own_language("partly-watched-for-fault", fault=guard.last))
    return loader if watched is None else watched


def _settings(server: str | None) -> Settings:
    global _server
    settings = load_settings()
    if server is not None:
        _server = server.rstrip("/")
    return settings if _server is None else dataclasses.replace(settings, server=_server)


def is_being_spawned() -> bool:
    """Whether this spawned process still imports the main script, before its own work."""
    return bool(getattr(multiprocessing.current_process(), "_inheriting", False))


def _attach(
    session: Session, loader: Any, name: str | None, role: LoaderRole, model: Any, optimizer: Any
) -> Any:
    if _close not in session.on_close:
        session.on_close.append(_close)
        guard.on_trip = _close
    if dataloader.adopt is None:
        dataloader.adopt = shield(lambda found: _adopt(session, found))
    hide_from_compile()
    hooks = shield(_step_hooks)(session, model, optimizer, loader is None or role == "train")
    if loader is None:
        _everywhere.append(hooks)
        substitutes.watch_everything()
        return None
    held = dataloader.held_by(loader)
    target = loader if held is None else held
    watched = _watch(session, target, name, role, hooks, type(loader).__name__)
    watch = dataloader.watch_of(target)
    if watch is not None:
        substitutes.watch_substitutes(target, watch)
    return watched if held is None else loader


def _limit(session: Session, loader: Any, seconds: float, on_timeout: str) -> None:
    held = dataloader.held_by(loader)
    watch = dataloader.watch_of(loader if held is None else held)
    if watch is None:
        say_once(in_own_language("limit-of-unwatched-loader", option=f"sample_timeout={seconds:g}"))
    else:
        set_limit(watch, seconds, on_timeout == "skip", str(session.folder))


def _tune(session: Session, loader: Any) -> None:
    held = dataloader.held_by(loader)
    target = loader if held is None else held
    watch = dataloader.watch_of(target)
    if watch is None:
        say_once(in_own_language("loader-not-tuned"))
        return
    if watch.tuner is not None:
        return  # the script recreated the loader, and its tuning continues
    number = watch.loader
    watch.tuner = autotuned(
        watch,
        target,
        session.folder,
        publish=lambda facts: session.change_loader(number, **facts),
        says=lambda: session.info.rank == 0,
    )


def _step_hooks(session: Session, model: Any, optimizer: Any, trains: bool) -> StepHooks | None:
    global _hooks, _scout
    given = model is not None or optimizer is not None
    if not given and (not trains or (_hooks is not None and _hooks.given)):
        return None  # model and optimizer belong to the loader that was attached with them
    if _hooks is None:
        _hooks = StepHooks(session.recorder, session.note_model_call)
    if model is not None:
        hide_from_script()
        _hooks.give_model(model)
    if optimizer is not None:
        _hooks.give_optimizer(optimizer)
    if given:
        session.change(has_model=_hooks.has_model, has_optimizer=_hooks.has_optimizer)
    if model is not None:
        session.change(synced_buffers=synced_buffers(model))
    if _scout is not None and _scout.is_over:  # a new call of attach starts a new search
        _scout.remove()
        _scout = None
    if trains and _scout is None:
        _scout = shield(Scout)(_hooks, session.change, partial(_train_alone, session, _hooks))
    return _hooks


def _train_alone(session: Session, hooks: StepHooks) -> None:
    """Watch a training without a loader: measure from the optimizer's step to the next model call."""
    if session.recorder.step_loop is not None or any(known.role == "train" for known in session.info.loaders):
        return
    info = session.add_loader(
        LoaderInfo(
            loader=0, name="training loop", role="train", class_name="no DataLoader", between_steps=True
        )
    )
    watch = _new_watch(session, info)
    watch.phases = hooks
    loop = StepLoop(watch, partial(session.change_loader, info.loader, acts=True))
    hooks.follow(loop)
    loop.step_ended()


def _trains_from_loader(session: Session) -> None:
    """End the watch of the loop without a loader, if any: the script does train from a loader."""
    loop, session.recorder.step_loop = session.recorder.step_loop, None
    if loop is not None:
        loop.close()
        if _scout is not None:
            _scout.begin_anew()


def _adopt(session: Session, loader: Any) -> None:
    hide_from_compile()
    original = substitutes.original_of(loader)
    if original is not None:
        _describe_anew(session, loader, original)
        dataloader.watch_loader(loader, original)
        return
    hooks = next((hooks for hooks in _everywhere if hooks is not None), None)
    _watch(session, loader, None, None, hooks, type(loader).__name__)


def _watch(
    session: Session,
    loader: Any,
    name: str | None,
    role: LoaderRole | None,
    hooks: StepHooks | None,
    class_name: str,
) -> Any:
    known = object.__getattribute__(loader, "_watch") if is_wrapped(loader) else dataloader.watch_of(loader)
    if known is not None:
        if hooks is not None and known.role == "train":
            known.phases = hooks
        return loader
    guessed = role is None
    lineage = session.lineage
    made = construction.made(loader)
    if role is None:
        name, role = lineage.given(loader) or (None, None)
        role = role or substitutes.guess_role(loader, session.info.loaders)
        name = name or name_made(made, loader, role)
    elif not dataloader.is_dataloader(loader):
        made = construction.here()
    info = describe_loader(loader, 0, name or role, role, class_name)
    watch = _taken_up(session, loader, info, made)
    if watch is None:
        watch = _new_watch(session, session.add_loader(info))
        lineage.add(loader, info, made, watch)
        _cache(session, watch)
        if guessed and role != "train":
            roles.doubt(watch, session.recorder, partial(_trains_after_all, session, watch, hooks))
    if watch.role == "train":
        watch.phases = hooks
        _trains_from_loader(session)
    _check_epochs(session, loader, watch)
    if dataloader.is_dataloader(loader):
        dataloader.watch_loader(loader, watch)
        return loader
    wrapper = wrap_loader(loader, watch)
    lineage.hold(watch, wrapper)
    if watch not in _wrappers:
        _wrappers.append(watch)
    return wrapper


def _cache(session: Session, watch: Watch) -> None:
    """Let the loader repeat its first batches if ``loaderwatch run --cached-batches`` asked for that."""
    most_batches = session.settings.cached_batches
    if most_batches:
        number = watch.loader
        watch.cached = cached = cached_batches(
            watch, most_batches, lambda kept: session.change_loader(number, cached_batches=kept)
        )
        session.on_end.append(lambda: _say_speeds(session, watch, cached))


def _say_speeds(session: Session, watch: Watch, cached: CachedBatches) -> None:
    if session.info.rank == 0 and watch.role == "train":
        cached.say_speeds(watch.name)


def _trains_after_all(session: Session, watch: Watch, hooks: StepHooks | None) -> None:
    """Change a loader's role from eval to train; its passes time the step's phases from the next pass on."""
    watch.role, watch.phases = "train", hooks
    session.change_loader(watch.loader, role="train")
    _trains_from_loader(session)


def _new_watch(session: Session, info: LoaderInfo) -> Watch:
    return Watch(
        info.loader,
        info.name,
        info.role,
        session.recorder,
        session.make_probe,
        session.make_fetch,
        session.refresh,
        session.note_calls,
        session.note_reader,
    )


def _taken_up(
    session: Session, loader: Any, info: LoaderInfo, made: construction.Made | None
) -> Watch | None:
    """Return the watch of the earlier loader that this loader continues; None if there is none."""
    continued = session.lineage.taken_up(loader, info, made)
    if continued is None:
        return None
    watch, changed = continued
    dataloader.release(watch)
    if changed:
        kept = {"loader": watch.loader, "name": watch.name, "role": watch.role}
        kept |= watch.tuner.settings if watch.tuner is not None else {}
        session.change_loader(watch.loader, **{**msgspec.structs.asdict(info), **kept})
    return watch


def _describe_anew(session: Session, loader: Any, watch: Watch) -> None:
    """Describe a substitute of an attached loader: its sampler or batch size may differ."""
    info = describe_loader(loader, watch.loader, watch.name, watch.role, type(loader).__name__)
    session.change_loader(watch.loader, **msgspec.structs.asdict(info))
    _check_epochs(session, loader, watch)


def _check_epochs(session: Session, loader: Any, watch: Watch) -> None:
    watch.note_pass = epoch_check(
        loader, lambda passes: session.change_loader(watch.loader, same_epoch_passes=passes), watch.note_pass
    )


def detach(loader: Any) -> Any:
    """See ``loaderwatch.detach``."""
    if loader is None:
        _close()
        return None
    if is_wrapped(loader):
        watch = object.__getattribute__(loader, "_watch")
        watch.closed = True
        return unwrapped(loader)
    held = dataloader.held_by(loader)
    watched = loader if held is None else held
    watch = dataloader.watch_of(watched)
    if watch is not None:
        watch.closed = True
        end_limit(watch)
        dataloader.unwatch_iterators(watch)
        substitutes.forget(watch)
        for other in dataloader.watched_loaders():
            if dataloader.watch_of(other) is watch:  # the loader itself and its substitutes
                dataloader.unwatch_loader(other)
    dataloader.unwatch_loader(watched)  # a copy of a watched loader may have our class without a watch
    return loader


def _close() -> None:
    """Remove every hook."""
    global _hooks, _scout, _server
    _server = None
    session = current_session()
    if session is not None:
        _trains_from_loader(session)
    substitutes.unwatch_everything()
    prefetch_thread_waits.unwatch()
    roles.forget()
    dataloader.adopt = None
    if _scout is not None:
        _scout.remove()
        _scout = None
    if _hooks is not None:
        _hooks.remove()
        _hooks = None
        show_to_script()
    _everywhere.clear()
    for watch in _wrappers:
        watch.closed = True
    _wrappers.clear()
    for loader in dataloader.watched_loaders():
        detach(loader)


def url() -> str:
    """See ``loaderwatch.url``."""
    settings = _settings(None)
    if settings.server is not None:
        return settings.server
    give_up_at = time.monotonic() + URL_WAIT_S
    while True:
        server = own_server(settings, "owner")
        # The address carries a token. Another process that now listens there must not receive it.
        if server is not None and is_there(server, _ANSWERS_WITHIN_S):
            return server.page_url or server.url
        if current_session() is None or time.monotonic() > give_up_at:
            return ""
        time.sleep(0.05)


shield(hide_from_compile)()  # this import may happen inside a compiled function that calls attach()
