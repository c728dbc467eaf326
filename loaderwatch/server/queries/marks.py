"""The events shown in charts, for ``GET /runs/{run}/marks``.

They are changed loader settings, checkpoints, evaluation, attempts and alerts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from loaderwatch.core import answers
from loaderwatch.core.answers import Mark, MarkKind, Param, Text
from loaderwatch.core.facts import LoaderInfo, ProcessInfo
from loaderwatch.detect.finding import text_of
from loaderwatch.server.store.protocol import Store
from loaderwatch.texts import say

SETTINGS: Final = (
    *("batch_size", "num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "in_order"),
    *("drop_last", "timeout_s", "start_method", "sampler_class", "dataset_class", "cached_batches"),
)
"""Fields of a loader that are its configuration."""

PHASE_KINDS: Final[dict[MarkKind, re.Pattern[str]]] = {
    "checkpoint": re.compile(r"checkpoint|ckpt|sav(e|ing)", re.IGNORECASE),
    "evaluation": re.compile(r"eval|valid|(?<![a-z])(val|test)(?![a-z])", re.IGNORECASE),
}
"""Names of phases, by kind: those of the framework callbacks, and common names."""

APART_S: Final = 5.0
"""Loaders of one name that appear within this time are different; a later one has changed settings."""

MOST_PHASES: Final = 5000
MOST_FACTS: Final = 2000
"""Events read for changed settings: a framework's progress makes one per epoch and host."""

_NUMBER: Final = re.compile(r"-\d+$")  # appended to a name that another loader already has


@dataclass
class _Made:
    """The loaders of one name made at about the same time, and those before them."""

    since_ns: int
    loaders: list[LoaderInfo] = field(default_factory=list)
    before: list[LoaderInfo] = field(default_factory=list)

    def predecessor(self, t_ns: int, loader: LoaderInfo) -> LoaderInfo | None:
        """Add a new loader and return the most similar loader from before."""
        if self.loaders and t_ns - self.since_ns >= APART_S * 1e9:
            self.since_ns, self.before, self.loaders = t_ns, self.loaders, []
        self.loaders.append(loader)
        return min(self.before, key=lambda one: len(_changes(one, loader)), default=None)


@dataclass
class _Told:
    """What the facts of a run say, in the order of their arrival."""

    names: dict[int, list[tuple[int, list[str]]]] = field(default_factory=dict)
    """By rank: start time of a process, and the names of its phases."""
    evaluating: set[tuple[int, int]] = field(default_factory=set)  # (rank, loader)
    loader_names: dict[tuple[int, int], str] = field(default_factory=dict)
    changes: list[Mark] = field(default_factory=list)
    _known: dict[tuple[int, int, int], LoaderInfo] = field(default_factory=dict)
    """By rank, start time of the process and number of the loader."""
    _made: dict[tuple[int, str, str], _Made] = field(default_factory=dict)  # by rank, name and role

    def take(self, t_ns: int, process: ProcessInfo) -> None:
        """Add what a process says about itself."""
        spans = self.names.setdefault(process.rank, [])
        if not spans or spans[-1][0] != process.started_ns:
            spans.append((process.started_ns, process.phase_names))
        spans[-1] = (process.started_ns, process.phase_names)
        for loader in process.loaders:
            self._take_loader(t_ns, process, loader)

    def _take_loader(self, t_ns: int, process: ProcessInfo, loader: LoaderInfo) -> None:
        rank, name = process.rank, _NUMBER.sub("", loader.name)
        if loader.role == "eval":
            self.evaluating.add((rank, loader.loader))
        self.loader_names[rank, loader.loader] = loader.name
        key = (rank, process.started_ns, loader.loader)
        previous = self._known.get(key)
        self._known[key] = loader
        if previous is None:
            made = self._made.setdefault((rank, name, loader.role), _Made(t_ns))
            previous = made.predecessor(t_ns, loader)
        changed = _changes(previous, loader) if previous is not None else []
        if changed:
            tuned = previous is not None and loader.autotuned not in (None, previous.autotuned)
            params: dict[str, Param] = {"loader": name, "tuned": tuned, "changes": ", ".join(changed)}
            self.changes.append(_moment("config", t_ns, [rank], Text("mark-of-settings", params)))

    def phase(self, rank: int, index: int, t_ns: int) -> str | None:
        """Return the name of a phase of the process that ran at that time."""
        for started_ns, names in reversed(self.names.get(rank, [])):
            if started_ns <= t_ns:
                return names[index] if 0 <= index < len(names) else None
        return None


def _changes(before: LoaderInfo, now: LoaderInfo) -> list[str]:
    """Return the settings known on both sides that differ."""
    pairs = [(setting, getattr(before, setting), getattr(now, setting)) for setting in SETTINGS]
    return [f"{name} {old} → {new}" for name, old, new in pairs if None not in (old, new) and old != new]


def marks_of(
    store: Store,
    run_id: str,
    findings: Iterable[answers.Finding],
    rank: int | None = None,
    start: float | None = None,
    end: float | None = None,
    attempt: int | None = None,
    limit: int = 500,
) -> list[Mark]:
    """Answer ``GET /runs/{run}/marks``: the newest ``limit`` that overlap [start, end), oldest first."""
    run = store.run(run_id)
    first_ns, last_ns = run.span_of(attempt)
    start_ns = max(first_ns, 0 if start is None else int(start * 1e9))
    end_ns = min(last_ns, 2**62 if end is None else int(end * 1e9))
    facts = _Told()
    for event in store.facts(run_id, MOST_FACTS):
        for process in event.body.processes:
            if rank in (None, process.rank):
                facts.take(event.t_ns, process)
    begins_ns = [attempt_before.began_ns for attempt_before in run.earlier if attempt_before.number > 1]
    begins_ns += [run.attempt_ns] if run.attempt > 1 else []
    marks = [
        *facts.changes,
        *_phases(store, run_id, facts, rank, start_ns, end_ns),
        *_evaluations(store, run_id, facts, rank),
        *(
            _moment(
                "attempt",
                t_ns,
                [],
                Text("mark-of-attempt", {"attempt": run.attempt - len(begins_ns) + 1 + place}),
            )
            for place, t_ns in enumerate(begins_ns)
        ),
        *_alerts(findings, rank),
    ]
    merged = [mark for kind in _by_kind(marks).values() for mark in _merged(kind)]
    inside = [
        mark
        for mark in merged
        if mark.began_at * 1e9 < end_ns and (mark.ended_at or mark.began_at) * 1e9 >= start_ns
    ]
    return sorted(inside, key=lambda mark: mark.began_at)[-limit:]


def _moment(kind: MarkKind, t_ns: int, ranks: list[int], text: Text) -> Mark:
    return Mark(kind=kind, began_at=t_ns / 1e9, ended_at=None, ranks=ranks, text=say(text), text_text=text)


def _phases(
    store: Store, run_id: str, told: _Told, rank: int | None, start_ns: int, end_ns: int
) -> Iterator[Mark]:
    names = [names for spans in told.names.values() for _, names in spans]
    wanted = {index for phase_names in names for index, name in enumerate(phase_names) if _kind_of(name)}
    for row in store.phases(run_id, rank, sorted(wanted), start_ns, end_ns, MOST_PHASES):
        name = told.phase(row["rank"], row["name"], row["request_ns"])
        kind = _kind_of(name) if name else None
        if name and kind:
            yield _span(kind, row["rank"], row["request_ns"], row["request_ns"] + row["duration_ns"], name)


def _kind_of(name: str) -> MarkKind | None:
    return next((kind for kind, pattern in PHASE_KINDS.items() if pattern.search(name)), None)


def _evaluations(store: Store, run_id: str, told: _Told, rank: int | None) -> Iterator[Mark]:
    if not told.evaluating:
        return
    for row in store.epochs(run_id, rank):
        if (row["rank"], row["loader"]) not in told.evaluating:
            continue
        end_ns = None if row["end_ns"] is None else row["end_ns"] + (row["teardown_ns"] or 0)
        name = told.loader_names[row["rank"], row["loader"]]
        yield _span("evaluation", row["rank"], row["request_ns"], end_ns, name)


def _span(kind: MarkKind, rank: int, began_ns: int, ended_ns: int | None, text: str) -> Mark:
    ended_at = None if ended_ns is None else ended_ns / 1e9
    return Mark(kind=kind, began_at=began_ns / 1e9, ended_at=ended_at, ranks=[rank], text=text)


def _alerts(findings: Iterable[answers.Finding], rank: int | None) -> Iterator[Mark]:
    for finding in findings:
        if finding.severity != "info" and (rank is None or finding.rank in (None, rank)):
            yield Mark(
                kind="alert",
                began_at=finding.began_at,
                ended_at=finding.ended_at,
                ranks=[] if finding.rank is None else [finding.rank],
                text=finding.title,
                text_text=text_of(finding, "title"),
                finding_id=finding.id,
            )


def _by_kind(marks: Sequence[Mark]) -> dict[MarkKind, list[Mark]]:
    by_kind: dict[MarkKind, list[Mark]] = {}
    for mark in marks:
        by_kind.setdefault(mark.kind, []).append(mark)
    return by_kind


def _merged(marks: list[Mark]) -> list[Mark]:
    """Return marks of one kind, merged: overlapping marks of several ranks, or nested ones, become one.

    A phase and the loader that is read in it are the same evaluation. Alerts and attempts stay separate.
    """
    merged: list[Mark] = []
    for mark in sorted(marks, key=lambda each: each.began_at):
        last = merged[-1] if merged else None
        if last is None or mark.kind in ("alert", "attempt") or not _belongs(mark, last):
            merged.append(mark)
            continue
        changed: dict[str, Any] = {"ranks": sorted({*last.ranks, *mark.ranks})}
        if last.ended_at is not None and mark.ended_at is not None:
            changed["ended_at"] = max(last.ended_at, mark.ended_at)
        merged[-1] = msgspec.structs.replace(last, **changed)
    return merged


def _belongs(mark: Mark, last: Mark) -> bool:
    if mark.kind == "config":  # ranks change one after the other
        return mark.text == last.text and mark.began_at - last.began_at < APART_S
    same = mark.text == last.text and mark.ranks == last.ranks
    return mark.began_at < (last.ended_at or last.began_at) and not same
