"""Parts of several answers: types of values, a verdict, evidence, advice, stacks."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from loaderwatch.core.message import Param, Text

RunStatus: TypeAlias = Literal["live", "finished", "hung", "crashed", "lost"]
AttemptStatus: TypeAlias = Literal["finished", "crashed", "lost"]
RankStatus: TypeAlias = Literal["live", "finished", "crashed", "lost"]
Severity: TypeAlias = Literal["info", "warning", "critical"]
GainOf: TypeAlias = Literal["finding", "run"]
VerdictSeverity: TypeAlias = Literal["ok", "info", "warning", "critical"]
AlertState: TypeAlias = Literal["firing", "acknowledged", "silenced", "resolved"]
Clock: TypeAlias = Literal["device", "nvml", "loop", "mixed"]
"""Whose waits count: the device's, if its events report how long it lacked data, else the loop's.

If the device computes on another stream, its waits count only as far as NVML confirms them.
"""
Unit: TypeAlias = Literal["ratio", "s", "count", "bytes", "index", "text", "per_s"]
CouplingState: TypeAlias = Literal["waiting", "turns", "even", "apart", "unknown", "standing"]
RankMeasure: TypeAlias = Literal["data_wait_ratio", "step_s", "gpu_utilization_ratio"]
PlaceState: TypeAlias = Literal["stands", "moving", "ended", "crashed", "unknown"]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The first thing to tell a person. ``finding_id`` is the alert with the details, None without one.

    ``rule`` is its message's id. ``title`` and ``advice`` are the parts with ``params``, in English.
    """

    severity: VerdictSeverity
    title: str
    advice: str = ""
    finding_id: str | None = None
    rule: str = ""
    params: dict[str, Param] = {}


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One number a person can check against the charts, e.g. ``("data wait", 0.62, "ratio")``."""

    label: str  # ``label_text`` in English
    value: float | int | str | None  # words are ``value_text`` in English
    unit: Unit
    label_text: Text | None = None  # None from a server of an older version
    value_text: Text | None = None  # None where the value is a number or a name


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of advice on a configuration. ``check`` is its heading in docs/doctor.md.

    ``rule`` is its message's id. ``what``, ``why`` and ``change`` are the parts with ``params``, in English.
    """

    check: str
    severity: Severity
    rule: str = ""
    params: dict[str, Param] = {}
    what: str = ""  # the configuration, with its numbers
    why: str = ""
    change: str = ""
    loader: str | None = None  # the loader's name
    where: str | None = None  # file and line of the loader's construction, if known
    ranks: list[int] = []


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """The stack of one process: a worker, or -1 for the training process. ``why`` explains a missing one."""

    rank: int
    worker: int
    pid: int
    taken_at: float
    text: str
    why: str
