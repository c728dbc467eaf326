"""Watches a launcher's ranks before their first iteration: many hang while they join the group, or before.

A launcher such as torchrun starts a process as one of several ranks. There the session opens at the end of
``import torch``. In other processes it opens when they begin to join a process group of several. In both
cases a loader is hooked only at its first iteration.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from typing import Any, Final

from loaderwatch.agent.frames import leave_out_ours
from loaderwatch.agent.guard import guard, shield
from loaderwatch.core import environment_variables as variables

JOIN: Final = "init_process_group"


def mark_rank() -> bool:
    """Whether a launcher started this process as one of several ranks; also mark it for child processes.

    Child processes inherit the launcher's variables, but only the first Python process with them is the rank.
    A launcher itself may have its node's number in RANK, but no LOCAL_RANK.
    """
    world_size = os.environ.get("WORLD_SIZE", "")
    if not {"RANK", "LOCAL_RANK"} <= os.environ.keys() or not world_size.isdecimal() or int(world_size) < 2:
        return False
    return os.environ.setdefault(variables.RANK.name, str(os.getpid())) == str(os.getpid())


def begin_rank(torch: Any) -> None:
    """Open the session of a rank after torch was imported."""
    if variables.RANK.read() == str(os.getpid()):  # not in a child that was forked before
        shield(_open)()


def watch_joining() -> None:
    """Open a process's session when it begins to join a process group; torch must be imported already."""
    groups: Any = sys.modules.get("torch.distributed.distributed_c10d")
    own = getattr(groups, JOIN, None)
    if own is None:
        return  # PyTorch was built without distributed
    begin, joined, leave_out = shield(_begin), shield(_joined), shield(leave_out_ours)

    @functools.wraps(own)
    def init_process_group(*arguments: Any, **options: Any) -> Any:
        begin(own, arguments, options)
        try:
            result = own(*arguments, **options)
        except BaseException as error:
            leave_out(error)
            raise
        joined()
        return result

    for name, module in list(sys.modules.items()):
        if name.startswith("torch.distributed") and vars(module).get(JOIN) is own:
            setattr(module, JOIN, init_process_group)


def _begin(own: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    try:
        given = inspect.signature(own).bind_partial(*arguments, **options).arguments
    except TypeError:
        return  # PyTorch will raise for the same arguments
    _open(given.get("rank", -1), given.get("world_size", -1))


def _joined() -> None:
    from loaderwatch.agent.session import current_session

    session = current_session()
    if session is not None:
        session.refresh()  # the backend and the timeout are known by now


def _open(rank: int = -1, world_size: int = -1) -> None:
    """Open the session of one of several ranks; negative numbers are read from the environment."""
    # Imported here, because every Python process of a script imports this module and few are ranks.
    from loaderwatch.agent.process.identity import Ranks, find_ranks
    from loaderwatch.agent.session import open_session
    from loaderwatch.core.config import load_settings
    from loaderwatch.core.errors import ConfigError

    ranks = find_ranks()
    if 0 <= rank < world_size:
        ranks = Ranks(rank, ranks.local_rank if "LOCAL_RANK" in os.environ else rank, world_size)
    if guard.tripped or ranks.world_size < 2:
        return
    try:
        settings = load_settings()
        if not settings.disabled:
            open_session(settings, None, ranks, unasked=True)
    except ConfigError:
        return  # attach() reports the error at the first iteration
