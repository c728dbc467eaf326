"""The settings of a run as texts, and those in which two runs differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from loaderwatch.core.answers import Setting
from loaderwatch.core.facts import GpuInfo, HostInfo, LoaderInfo, ProcessInfo

PROCESS: Final = "process"
MACHINE: Final = "machine"
_NO_SETTINGS: Final = frozenset({"loader", "name", "role", "same_epoch_passes", "reader_error", "autotuned"})
_OF_A_PROCESS: Final = ("world_size", "python", "torch", "backend", "cuda", "synced_buffers")
_OF_A_HOST: Final = ("cpus", "usable_cpus", "memory_bytes", "shm_bytes")

Settings = dict[str, str | None]


def changed(
    a: tuple[Sequence[ProcessInfo], Sequence[HostInfo], Mapping[str, Sequence[GpuInfo]]],
    b: tuple[Sequence[ProcessInfo], Sequence[HostInfo], Mapping[str, Sequence[GpuInfo]]],
) -> list[Setting]:
    """Return the settings that differ, loaders first. A run is given as (processes, hosts, GPUs by host)."""
    differences: list[Setting] = []
    for one, other in _pairs(loaders_of(a[0]), loaders_of(b[0])):
        named = other or one
        assert named is not None
        differences += _differing(named.name, _loader_settings(one), _loader_settings(other))
    differences += _differing(PROCESS, _process_settings(a[0]), _process_settings(b[0]))
    differences += _differing(MACHINE, _machine_settings(a[1], a[2]), _machine_settings(b[1], b[2]))
    return differences


def loaders_of(processes: Sequence[ProcessInfo]) -> list[LoaderInfo]:
    """Return the loaders of the lowest rank that has any."""
    return next((process.loaders for process in processes if process.loaders), [])


def _pairs(
    ours: Sequence[LoaderInfo], theirs: Sequence[LoaderInfo]
) -> list[tuple[LoaderInfo | None, LoaderInfo | None]]:
    """Pair loaders by role and name; one unpaired loader of a role on each side counts as renamed."""
    left = list(theirs)
    alone: list[LoaderInfo] = []
    pairs: list[tuple[LoaderInfo | None, LoaderInfo | None]] = []
    for our in ours:
        same = next((other for other in left if (other.role, other.name) == (our.role, our.name)), None)
        if same is None:
            alone.append(our)
        else:
            left.remove(same)
            pairs.append((our, same))
    for our in alone:
        rest = [other for other in left if other.role == our.role]
        renamed = rest[0] if len(rest) == 1 and sum(x.role == our.role for x in alone) == 1 else None
        if renamed is not None:
            left.remove(renamed)
        pairs.append((our, renamed))
    return [*pairs, *((None, other) for other in left)]


def _differing(where: str, a: Settings | None, b: Settings | None) -> list[Setting]:
    if a is None or b is None:
        there, gone = ("used", None) if b is None else (None, "used")
        return [Setting(where=where, what="loader", a=there, b=gone)]
    return [
        Setting(where=where, what=what, a=a.get(what), b=b.get(what))
        for what in dict.fromkeys([*a, *b])
        if a.get(what) != b.get(what)
    ]


def _loader_settings(info: LoaderInfo | None) -> Settings | None:
    if info is None:
        return None
    fields = msgspec.structs.asdict(info)
    return {name: _text(value) for name, value in fields.items() if name not in _NO_SETTINGS}


def _process_settings(processes: Sequence[ProcessInfo]) -> Settings:
    if not processes:
        return {}
    first = processes[0]
    settings = {"script": first.name or None, "arguments": " ".join(first.argv[1:]) or None}
    settings |= {name: _text(getattr(first, name)) for name in _OF_A_PROCESS}
    return settings | dict(sorted((first.thread_limits or {}).items()))


def _machine_settings(hosts: Sequence[HostInfo], gpus: Mapping[str, Sequence[GpuInfo]]) -> Settings:
    settings: Settings = {"hosts": ", ".join(sorted(host.name for host in hosts)) or None}
    for name in _OF_A_HOST:
        settings[name] = " and ".join(_distinct(_text(getattr(host, name)) for host in hosts)) or None
    devices = Counter(gpu.name for of_host in gpus.values() for gpu in of_host if gpu.rank is not None)
    settings["gpus"] = ", ".join(f"{number} × {name}" for name, number in sorted(devices.items())) or None
    return settings


def _distinct(texts: Iterable[str | None]) -> list[str]:
    return sorted({text for text in texts if text is not None})


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return f"{value:g}" if isinstance(value, float) else str(value)
