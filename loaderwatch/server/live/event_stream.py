"""The event stream: news of a live run for browsers (server-sent events).

Clients have no queues: the hub keeps each run's newest state, and a client gets it when it is ready. So a
slow client skips states and never delays others. It still gets every change of the findings, because its
stream remembers the version sent last.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from loaderwatch.core.answers import Finding, RankRow, Summary
from loaderwatch.server.encoding import encode_json
from loaderwatch.server.live.summary import outline
from loaderwatch.texts import SOURCE

STANDING: Final = ("rank", "host", "pid", "state", "exit", "watched", "phases_missing", "gpu")
"""The fields of a rank that say what it is."""
RUNNING: Final = ("live", "hung")
_FIELDS: Final = tuple(name for name in Summary.__struct_fields__ if name != "ranks")


class Changes:
    """The newest summary of a run, and the number of the state in which each part last changed."""

    def __init__(self) -> None:
        self._summary: Summary | None = None
        self._number = 0
        self._whole = 0  # a client that has seen nothing newer gets everything
        self._fields: dict[str, int] = {}
        self._ranks: dict[int, tuple[tuple[Any, ...], int]] = {}

    def note(self, summary: Summary | None, number: int) -> None:
        """Process the summary of a state; None if only its text is known."""
        if number == self._number:
            return
        previous, self._summary, self._number = self._summary, summary, number
        if summary is None or previous is None or _kind(previous) != _kind(summary):
            self._whole = number
            self._fields, self._ranks = {}, {}
        if summary is None or summary.state not in RUNNING:
            return
        for name in _FIELDS:
            if previous is None or getattr(previous, name) != getattr(summary, name):
                self._fields[name] = number
        for row in summary.ranks:
            standing = _standing(row)
            known = self._ranks.get(row.rank)
            if known is None or known[0] != standing:
                self._ranks[row.rank] = standing, number

    def since(self, seen: int, language: str = SOURCE) -> tuple[bytes, bytes] | None:
        """Return the summary for a client at state ``seen``, and more event text; None: send the whole."""
        summary = self._summary
        if summary is None or summary.state not in RUNNING:
            return None
        partial = seen >= self._whole
        changed: dict[str, Any] = {
            name: getattr(summary, name)
            for name in _FIELDS
            if not partial or self._fields.get(name, 0) > seen
        }
        ranks = [
            dict(zip(STANDING, standing, strict=True))
            for standing, number in self._ranks.values()
            if not partial or number > seen
        ]
        if ranks:
            changed["ranks"] = ranks
        more = b',"partial":true' if partial else b',"worst_rank":' + encode_json(_worst(summary))
        return encode_json(changed, language), more


def _kind(summary: Summary) -> tuple[Any, ...]:
    """Facts whose change needs a whole new summary: the attempt, the ranks, and whether the run goes on."""
    return summary.attempt, summary.state in RUNNING, [row.rank for row in summary.ranks]


def _standing(row: RankRow) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in STANDING)


def _worst(summary: Summary) -> int | None:
    """The rank that waits most for data."""
    worst = max(summary.ranks, key=lambda row: row.data_wait_ratio or 0.0, default=None)
    return None if worst is None else worst.rank


HEARTBEAT_S: Final = 5.0
"""After this many seconds without news, a client gets a sign of life; web/js/store.js waits for two."""
MAX_CLIENTS: Final = 256
MAX_CLIENTS_OF_ONE: Final = 64  # of one address
MAX_UNFOLLOWED: Final = 64
"""States kept for pages that may return; the oldest is dropped first."""
_RETRY: Final = b"retry: 1000\n\n"
_HEARTBEAT: Final = b"event: still\ndata: {}\n\n"  # an event, because a browser hides comments from the page


@dataclass(frozen=True, slots=True)
class RunState:
    """The run's state for clients. Its texts are JSON, encoded once for all clients of a language."""

    summary: bytes
    findings: bytes
    newest_at: float | None
    facts: Summary | None = field(default=None, compare=False)  # the source of the summary's text
    ranks: Sequence[RankRow] = field(default=(), compare=False)  # all ranks
    found: Sequence[Finding] = field(default=(), compare=False)  # the source of the findings' text
    _said: dict[tuple[str, str], bytes] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, summary: Summary, findings: Sequence[Finding], newest_ns: int) -> RunState:
        """Return the state with this summary of all ranks."""
        shown = outline(summary)
        return cls(encode_json(shown), encode_json(findings), newest_ns / 1e9, shown, summary.ranks, findings)

    def summary_in(self, language: str) -> bytes:
        """Return the text of the summary in a language."""
        return self.summary if self._is_said(language) else self._said_once("summary", language, self.facts)

    def findings_in(self, language: str) -> bytes:
        """Return the text of the findings in a language."""
        return self.findings if self._is_said(language) else self._said_once("findings", language, self.found)

    def _is_said(self, language: str) -> bool:
        """Whether the texts are in that language, or are all that is known and cannot be translated."""
        return language == SOURCE or self.facts is None

    def _said_once(self, what: str, language: str, answer: Any) -> bytes:
        if (what, language) not in self._said:
            self._said[what, language] = encode_json(answer, language)
        return self._said[what, language]


@dataclass(slots=True)
class _Latest:
    state: RunState
    number: int
    findings_number: int
    changes: Changes = field(default_factory=Changes)


class Hub:
    """The runs' newest states and the clients that wait for them. Use it from the event loop only."""

    def __init__(self) -> None:
        self._boot = secrets.token_hex(4)
        # counted over all runs, so that a dropped state never shares its number with a later one
        self._numbers = itertools.count(1)
        self._latest: dict[str, _Latest] = {}
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._gone: set[str] = set()
        self._moved: set[str] = set()
        self._closing = False
        self._generation = 0  # streams of an earlier generation end

    def publish(self, run_id: str, state: RunState) -> None:
        """Send a state to all followers of the run, unless it equals the last one."""
        latest = self._latest.get(run_id)
        self._gone.discard(run_id)
        self._moved.discard(run_id)
        if latest is None:
            number = next(self._numbers)
            self._latest[run_id] = _Latest(state, number, number)
            self._drop_unfollowed()
        elif latest.state != state:
            latest.number = next(self._numbers)
            if latest.state.findings != state.findings:
                latest.findings_number = latest.number
            latest.state = state
        else:
            return
        self._wake(run_id)

    def is_followed(self, run_id: str) -> bool:
        """Whether anyone follows the run."""
        return bool(self._waiting.get(run_id))

    def forget(self, run_id: str) -> None:
        """Drop the state of a run that is no longer live; followers keep theirs."""
        if not self.is_followed(run_id):
            self._latest.pop(run_id, None)

    def gone(self, run_id: str) -> None:
        """Tell followers that the run was deleted, and end its streams."""
        self._latest.pop(run_id, None)
        if self.is_followed(run_id):
            self._gone.add(run_id)
            self._wake(run_id)

    def moved(self, run_id: str) -> None:
        """End a run's streams because another server has the run; their pages reconnect."""
        self._latest.pop(run_id, None)
        if self.is_followed(run_id):
            self._moved.add(run_id)
            self._wake(run_id)

    def close(self) -> None:
        """End every stream."""
        self._closing = True
        self.cut()

    def cut(self) -> None:
        """End the open streams; a page that still has access reconnects by itself."""
        self._generation += 1
        for run_id in list(self._waiting):
            self._wake(run_id)

    @property
    def clients(self) -> int:
        """Return how many streams are open."""
        return sum(map(len, self._waiting.values()))

    async def stream(
        self,
        run_id: str,
        last_event_id: str | None,
        *,
        may_change: bool = True,
        changes: bool = False,
        language: str = SOURCE,
    ) -> AsyncIterator[bytes]:
        """Stream the run's events to one client in its language; with ``changes``, only the summary's news.

        A state of the run must have been published before.
        """
        changed = asyncio.Event()
        generation = self._generation
        self._waiting[run_id].add(changed)
        seen, findings_seen = self._resume(run_id, last_event_id)
        name = "tick" if seen else "snapshot"
        try:
            yield _RETRY
            while not self._closing and generation == self._generation:
                if run_id in self._gone:
                    yield b"event: gone\ndata: {}\n\n"
                    return
                if run_id in self._moved:
                    return
                latest = self._latest.get(run_id)
                if latest is not None and latest.number != seen:
                    new = None
                    if changes:
                        latest.changes.note(latest.state.facts, latest.number)
                        new = latest.changes.since(seen, language)
                    summary, more = new or (latest.state.summary_in(language), b"")
                    findings = None
                    if latest.findings_number != findings_seen:
                        findings = latest.state.findings_in(language)
                    event = self._event(name, latest, summary, findings, may_change, more)
                    # Set before the yield, which may last long with a slow client while `latest` changes.
                    seen, findings_seen, name = latest.number, latest.findings_number, "tick"
                    yield event
                    continue
                changed.clear()
                try:
                    await asyncio.wait_for(changed.wait(), HEARTBEAT_S)
                except asyncio.TimeoutError:
                    yield _HEARTBEAT
        finally:
            waiting = self._waiting[run_id]
            waiting.discard(changed)
            if not waiting:
                del self._waiting[run_id]
                self._gone.discard(run_id)
                self._moved.discard(run_id)

    def _resume(self, run_id: str, last_event_id: str | None) -> tuple[int, int]:
        boot, _, number = (last_event_id or "").partition("-")
        latest = self._latest.get(run_id)
        if latest is None or boot != self._boot or number != str(latest.number):
            return 0, 0
        return latest.number, latest.findings_number

    def _event(
        self, name: str, latest: _Latest, summary: bytes, found: bytes | None, may_change: bool, more: bytes
    ) -> bytes:
        return b"".join(
            (
                f"id: {self._boot}-{latest.number}\nevent: {name}\ndata: ".encode(),
                b'{"summary":',
                summary,
                b',"findings":',
                b"null" if found is None else found,
                b',"findings_changed":',
                b"false" if found is None else b"true",
                b',"newest_at":',
                b"null" if latest.state.newest_at is None else repr(latest.state.newest_at).encode(),
                b',"may_change":',
                b"true" if may_change else b"false",
                more,
                b"}\n\n",
            )
        )

    def _drop_unfollowed(self) -> None:
        unfollowed = [run_id for run_id in self._latest if not self.is_followed(run_id)]
        for run_id in unfollowed[: max(0, len(unfollowed) - MAX_UNFOLLOWED)]:
            del self._latest[run_id]

    def _wake(self, run_id: str) -> None:
        for changed in self._waiting.get(run_id, ()):
            changed.set()
