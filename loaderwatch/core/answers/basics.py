"""What several answers are made of: their words, a verdict, evidence, advice, stacks."""

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
"""Whose waits are counted: the device's, where its events tell how long it lacked data, of that as much as NVML confirms where
it computes on another stream, else the loop's in next(loader)."""
Unit: TypeAlias = Literal["ratio", "s", "count", "bytes", "index", "text", "per_s"]
CouplingState: TypeAlias = Literal["waiting", "turns", "even", "apart", "unknown", "standing"]
RankMeasure: TypeAlias = Literal["data_wait_ratio", "step_s", "gpu_utilization_ratio"]
PlaceState: TypeAlias = Literal["stands", "moving", "ended", "crashed", "unknown"]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What to tell a person first. ``finding_id`` is the id of the alert that says more, None when there is none.

    ``rule`` is the id of its message, whose parts with ``params`` are ``title`` and ``advice``; these are in English here.
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

    ``rule`` is the id of its message, whose parts with ``params`` are ``what``, ``why`` and ``change``; these are in English here.
    """

    check: str
    severity: Severity
    rule: str = ""
    params: dict[str, Param] = {}
    what: str = ""  # what is configured, with its numbers
    why: str = ""
    change: str = ""
    loader: str | None = None  # the loader's name
    where: str | None = None  # file and line of the loader's construction, where that is known
    ranks: list[int] = []


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """Stacks of one process: -1 is the training process, else a worker. ``why`` says why there is none, if so."""

    rank: int
    worker: int
    pid: int
    taken_at: float
    text: str
    why: str
