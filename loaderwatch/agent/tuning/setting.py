"""A setting that a tuning found, with which the next run of its script starts.

``loaderwatch tune --apply-env`` keeps the setting in the data directory. ``loaderwatch run`` removes it there
and puts it into the environment. In every process of that run, a loader that is made at the same line gets
the setting. Nothing else of the loader changes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from loaderwatch.agent.guard import shield
from loaderwatch.agent.source import line_outside
from loaderwatch.core.files import private_folder, read_own, write_atomically
from loaderwatch.core.wire import decode_json

ONLY_WITH_WORKERS: Final = ("prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context")
"""Options that DataLoader refuses without workers."""


class TunedSetting(msgspec.Struct, frozen=True, kw_only=True):
    """The setting for one loader."""

    loader: str  # its name
    made_at: str  # file and line of its construction
    num_workers: int
    prefetch_factor: int | None = None  # None: the script's own

    def __str__(self) -> str:
        prefetch = "" if self.prefetch_factor is None else f", prefetch_factor={self.prefetch_factor}"
        return f"num_workers={self.num_workers}{prefetch}"


def keep(path: Path, target: str, setting: TunedSetting) -> None:
    """Keep a setting for the next run of a target, an absolute path or ``-m MODULE``; replace an earlier one.

    Raises:
        OSError: the file cannot be written.
    """
    kept = _kept(path)
    kept[target] = setting
    private_folder(path.parent)
    write_atomically(path, msgspec.json.encode(kept))


def take(path: Path, targets: Sequence[str]) -> TunedSetting | None:
    """Return the kept setting of the first target that has one, and remove it."""
    kept = _kept(path)
    target = next((target for target in targets if target in kept), None)
    if target is None:
        return None
    setting = kept.pop(target)
    try:
        write_atomically(path, msgspec.json.encode(kept))
    except OSError:
        return None  # the kept setting would be applied again and again
    return setting


def _kept(path: Path) -> dict[str, TunedSetting]:
    try:
        return decode_json(read_own(path), dict[str, TunedSetting])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}


def apply_tuned(kind: Any, text: str) -> None:
    """Apply a setting (JSON) to the loader of this class that is made at the setting's line.

    Raises:
        msgspec.DecodeError: the text is not a setting.
    """
    setting = decode_json(text, TunedSetting)
    own = kind.__init__
    signature = inspect.signature(own)

    def changed(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if line_outside() != setting.made_at:
            return None
        bound = signature.bind(*args, **kwargs)
        bound.arguments["num_workers"] = setting.num_workers
        if setting.num_workers == 0:
            for name in ONLY_WITH_WORKERS:
                bound.arguments.pop(name, None)
        elif setting.prefetch_factor is not None:
            bound.arguments["prefetch_factor"] = setting.prefetch_factor
        return bound.args, bound.kwargs

    change = shield(changed)

    @functools.wraps(own)
    def __init__(*args: Any, **kwargs: Any) -> None:
        args, kwargs = change(*args, **kwargs) or (args, kwargs)
        own(*args, **kwargs)

    kind.__init__ = __init__
