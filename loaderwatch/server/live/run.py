"""A live run: it takes envelopes and gives verdict, summary, findings, alerts, notices and stack requests."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from loaderwatch.core import answers
from loaderwatch.core.answers import RunStatus, Summary, Text, Verdict
from loaderwatch.core.clock import END_OF_TIME_NS
from loaderwatch.core.wire import Closing, Envelope, Receipt
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import DEFAULT_LIMITS, RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.hang.rank_positions import somebody_waits, without_stack
from loaderwatch.detect.incidents.verdict import verdict_of
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.alerts.alert_book import Alert, AlertBook, Announcement, shape
from loaderwatch.server.alerts.end_summary import closing_of
from loaderwatch.server.live.commands import Claims, Commands, Process
from loaderwatch.server.live.event_stream import RunState
from loaderwatch.server.live.judge import Judge, stands, with_its_end
from loaderwatch.server.live.summary import LOST_AFTER_S, summary_of
from loaderwatch.server.store.protocol import Store, StoredRun, StoreError
from loaderwatch.server.times import behind_s, envelope_s
from loaderwatch.server.window.builder import WindowBuilder
from loaderwatch.server.window.replay import complete, rebuild
from loaderwatch.texts import SOURCE, say

LOST_BEHIND_S: Final = 2.0
"""A host is shown as lost after this silence (two ticks of a second, four envelopes of half a second) while
another host was heard. That is a word in a table, never an alert, and the next envelope clears it."""


class Heartbeats:
    """When each host was last heard. Call ``heard`` on the event loop, ``lost`` in any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._heard: dict[str, float] = {}

    def heard(self, host: str) -> None:
        """Note that an envelope of this host arrived."""
        self._heard[host] = self._clock()

    def lost(self, world_size: int) -> Callable[[str], bool]:
        """Return a test for lost hosts: others were heard ``LOST_BEHIND_S`` later, or more if sends are rare.

        The time counts up to the newest envelope of any host, not up to now. So no host is lost while this
        server or the network stands still. A host that was never heard counts from the server's start.
        """
        heard = dict(self._heard)
        since = max(heard.values(), default=self._began) - behind_s(world_size, LOST_BEHIND_S)
        return lambda host: heard.get(host, self._began) < since


_log = logging.getLogger(__name__)

_SAVE_INTERVAL_S: Final = 10.0  # for alerts whose numbers only grow; a change of state is saved at once
_CLOSING_S: Final = 2.0  # how often a streamer gets the last words, since the end may come at any time
_ATTENDED_S: Final = 60.0  # longer than the pause between a page's requests for its rank
MAX_INBOX: Final = 4_000
"""Envelopes that may wait for a look, some 15 s of 1,000 ranks. With more, the run is read from the store."""


class LiveRun:
    """A run whose envelopes arrive.

    Call ``take``, ``receipt`` and the requests on the event loop; ``look`` and ``detect`` in worker threads,
    each never twice at the same time.
    """

    def __init__(
        self,
        run_id: str,
        store: Store,
        *,
        is_new: bool = False,
        limits: Limits = DEFAULT_LIMITS,
        detector: Callable[[RunEvidence], list[Finding]] = detect,
        describe: Callable[[Announcement], Callable[[str], str]] | None = None,
        base_url: str = "",
    ) -> None:
        self.run_id = run_id
        self._store = store
        self._is_new = is_new  # the store holds nothing older than the envelope in the inbox
        self._limits = limits
        self._detector = detector
        self._describe = describe
        self._base_url = base_url
        self._looking = threading.Lock()  # one look at a time
        # guards builder and book against simultaneous looks, detections, acknowledgements and reads
        self._lock = threading.Lock()
        self._inbox: deque[Envelope] = deque()
        self._inbox_bytes = self._window_bytes = 0
        self._overrun = False
        self.said_goodbye = False  # a final envelope came since the last look
        self._builder: WindowBuilder | None = None
        self._judge: Judge | None = None
        self._evidence: RunEvidence | None = None  # of the newest window
        self._verdict: Verdict | None = None
        self._judged: RunWindow | None = None  # the window that the verdict is about
        self._saved_at = 0.0
        self._untold: list[Announcement] = []  # announcements that must be stored before people get them
        self._commands = Commands()
        self.claims = Claims()
        self._attended: dict[int, float] = {}  # by rank that a page shows: when the page last asked
        self.heard_at = time.monotonic()
        self._heartbeats = Heartbeats()
        self._refused: str | None = None  # why the last envelope could not be stored
        self.latest: RunState | None = None  # the state at the last look
        self.summary: Summary | None = None  # the summary in that state
        self._last_word: tuple[Process | None, Callable[[str], Closing]] | None = None
        """The process that prints the last words, and the function that makes them in a language."""
        self.took_s = 0.0  # duration of the attempt, as of the last look
        self._closing_handed_at = 0.0
        self.summarized = 0  # the newest attempt whose end was reported to people
        self.notifies = False  # this server has the run's own notification addresses
        self.ended = False
        self.undetected = False  # the detectors have not seen the newest window
        self.stands = False  # a rank stands still in the newest window
        self.detections = 0
        self.detect_s = 0.0
        self.last_detect_s = 0.0
        self.detector_faults = 0
        self._last_fault = ""

    # -- from the event loop

    def take(self, envelope: Envelope, weight: int = 0) -> None:
        """Add an envelope that is now on disk; ``weight`` is its bytes of memory."""
        if len(self._inbox) >= MAX_INBOX:
            self._overrun = True
            self._inbox.clear()  # its envelopes are all on disk
            self._inbox_bytes = 0
        self._inbox.append(envelope)
        self.claims.take(envelope)
        self.said_goodbye = self.said_goodbye or envelope.final
        self._inbox_bytes += weight
        self.heard_at = time.monotonic()
        self._heartbeats.heard(envelope.host.name)
        self._refused = None

    def refuse(self, reason: str) -> None:
        """Note that an envelope came but could not be stored: the run lives, the server is at fault."""
        self.heard_at = time.monotonic()
        self._refused = reason

    def state_of(self, run: StoredRun) -> RunStatus:
        """Return the state like ``summary.state_now``, but by the monotonic clock."""
        silent = run.state == "live" and time.monotonic() - self.heard_at > LOST_AFTER_S
        return "lost" if silent else run.state

    @property
    def name(self) -> str:
        """The run's name, or its id if it has none or was not looked at yet."""
        return (self.summary.name if self.summary is not None else "") or self.run_id

    @property
    def held_bytes(self) -> int:
        """About the run's bytes of memory: rows and stacks as of the last look, and later envelopes."""
        return self._window_bytes + self._inbox_bytes

    @property
    def has_news(self) -> bool:
        """Whether an envelope came since the last look."""
        return bool(self._inbox)

    def want_stacks(self, rank: int | None) -> list[int]:
        """Ask for fresh stacks of a rank, or of all; return the ranks asked for."""
        window = self.window()
        known = sorted({*window.ranks, *window.summed}) if window else [0 if rank is None else rank]
        wanted = [r for r in known if rank is None or r == rank]
        self._commands.want_stacks(wanted)
        return wanted

    def attend(self, rank: int | None) -> None:
        """Note that a page shows a rank; in a large run only such ranks are kept in detail."""
        if rank is not None:
            self._attended[rank] = time.monotonic()

    def receipt(self, envelope: Envelope, stored_seq: int, language: str = SOURCE) -> Receipt:
        """Return the answer to a stored envelope. It tells a stream only about processes that it sent."""
        stream = envelope.stream
        if not self.claims.holds_any(envelope):
            # It says nothing about the run. With notifies=True the streamer reports no missing addresses.
            return Receipt(stored_seq=stored_seq, notifies=True)
        requests, notices = self._commands.hand_out(stream, envelope.seq, self._process_of, self.claims.holds)
        return Receipt(
            stored_seq=stored_seq,
            stack_requests=requests,
            notices=[notice.in_language(language) for notice in notices],
            notifies=self.notifies,
            closing=self._closing_for(stream),
            envelope_s=envelope_s(0 if self.summary is None else self.summary.world_size, stands=self.stands),
        )

    @property
    def closing(self) -> Callable[[str], Closing] | None:
        """The function that makes the run's last words in a language, as of the last look."""
        return None if self._last_word is None else self._last_word[1]

    def _closing_for(self, stream: str) -> Closing | None:
        """Return, now and then, the last words of the lowest rank, for the stream that sent its process."""
        process, closing = self._last_word or (None, None)
        now = time.monotonic()
        if process is None or closing is None or now - self._closing_handed_at < _CLOSING_S:
            return None
        if not self.claims.holds(stream, process):
            return None
        self._closing_handed_at = now
        return closing(SOURCE)  # the process adds its own English words before and after

    def say(self, text: Text) -> None:
        """Leave a line for the stderr of the lowest rank."""
        window = self.window()
        process = None if window is None else _speaker(window)
        if process is not None:
            self._commands.leave(process, partial(say, Text("job-line", {"line": text})))

    # -- from a worker thread

    def look(self) -> RunState:
        """Process the envelopes that arrived, and return the run's state.

        Raises:
            StoreError, UnknownRun: the run cannot be read.
        """
        with self._looking:
            return self._look()

    def _look(self) -> RunState:
        with self._lock:
            if self._overrun:
                self._overrun = self._is_new = False
                self._builder = None
            builder, judge = self._load()
            news = bool(self._inbox)
            self._inbox_bytes = 0
            self.said_goodbye = False
            builder.add_all(self._arrived())
            evidence = self._evidence
            if evidence is None or news:
                builder.choose(self._wanted(judge.book))
                complete(builder, self._store)
                evidence = self._evidence = RunEvidence(builder.window(), self._limits, self._reported)
                self._window_bytes = builder.held_bytes()
                self.undetected, self.stands = True, stands(evidence.window)
            window = evidence.window
            run = self._store.run(self.run_id)
            base = self.state_of(run)
            self.ended = base in ("finished", "crashed")
            self._save(judge.book)
            alerts = judge.alerts(window)
            hung = any(a.finding.code == "hung" and a.pages and a.state != "resolved" for a in alerts)
            state: RunStatus = "hung" if base == "live" and hung else base
            findings = [shape(alert, stack_texts=False) for alert in alerts]
            costs_s = [alert.cost_s for alert in alerts]
            verdict_now = self._verdict_now(evidence, alerts, base)
            totals = builder.totals()
        # Outside the lock: this takes long with a thousand ranks, and it reads only immutable data.
        summary = self.summary = summary_of(
            evidence,
            totals,
            state=state,
            verdict=verdict_now,
            costs_s=costs_s,
            host_lost=self._heartbeats.lost(run.world_size),
            earlier=run.earlier,
            name=run.shown_name,
        )
        began_ns = window.started_ns if window.attempt == 1 else window.attempt_ns
        self.took_s = max(0.0, (window.now_ns - began_ns) / 1e9)
        closing = partial(closing_of, summary, findings, self.took_s, self._base_url)
        self._last_word = _speaker(window), closing
        self.latest = RunState.of(summary, findings, window.now_ns)
        return self.latest

    def detect(self, now_ns: int) -> list[Announcement]:
        """Run the detectors over the newest window; return the announcements for people.

        The detectors work without the lock, so looks and acknowledgements do not wait for them.
        """
        evidence, ended = self._evidence, self.ended
        if evidence is None:
            return []
        window = evidence.window
        self.undetected = False
        with self._lock:
            told = self._tell(self._load()[1].begin(window, now_ns), window)
        began = time.perf_counter()
        try:
            findings = self._detector(evidence)
        except Exception as fault:  # noqa: BLE001 - a failing detector must not hide the run's numbers
            self._report(fault)
            return told
        finally:
            evidence.let_go()
        with self._lock:
            _, judge = self._load()
            announcements = judge.judge(window, findings, now_ns)
            if ended:
                announcements += [with_its_end(a, window) for a in judge.close(window.now_ns, now_ns)]
            self._ask_for_stacks(judge.book, window)
            announcements = self._tell(announcements, window)
            open_alerts = judge.book.open_alerts()
        self._verdict, self._judged = verdict_of("live", lambda: evidence, open_alerts), window
        self.detections += 1
        self.last_detect_s = time.perf_counter() - began
        self.detect_s += self.last_detect_s
        return told + announcements

    def _reported(self) -> list[Alert]:
        """Return the alerts of the newest window's attempt, newest first."""
        with self._lock:
            return [] if self._evidence is None else self._load()[1].alerts(self._evidence.window)

    def change(self, action: Callable[[AlertBook], Any]) -> Any:
        """Do something to the alerts (acknowledge, silence) and save it before returning."""
        with self._lock:
            _, judge = self._load()
            result = action(judge.book)
            self._save(judge.book)
            return result

    def findings(self) -> list[answers.Finding]:
        """Return the findings of the present attempt, as ``GET /runs/{run}/findings`` gives them."""
        with self._lock:
            builder, judge = self._load()
            return [shape(alert) for alert in judge.book.of_span((builder.facts.attempt_ns, END_OF_TIME_NS))]

    def window(self) -> RunWindow | None:
        """The newest window; None before the first look."""
        return None if self._evidence is None else self._evidence.window

    def evidence(self) -> RunEvidence | None:
        """The evidence of the newest window; None before the first look."""
        return self._evidence

    def firing(self) -> list[Alert]:
        """Return the alerts that fire now, without remarks."""
        open_alerts = self._judge.book.open_alerts() if self._judge else []
        return [alert for alert in open_alerts if alert.pages and alert.state == "firing"]

    def close(self) -> None:
        """Save the alerts that are not saved yet."""
        with self._lock:
            if self._judge is not None:
                self._save(self._judge.book, now=True)

    def let_go(self, now_ns: int) -> list[Announcement]:
        """Resolve the open alerts of a run that was silent for long: nothing can confirm them any more."""
        with self._lock:
            window = self.window()
            if self._judge is None or window is None:
                return []
            announcements = self._judge.close(window.now_ns, now_ns)
            if not self._save(self._judge.book, now=True) and self._store.shared:
                return []
            return [replace(announcement, unheard=announcement.resolved) for announcement in announcements]

    # -- inside

    def _wanted(self, book: AlertBook) -> set[int]:
        """Return the ranks that a page shows or an open finding names."""
        now = time.monotonic()
        attended = self._attended.copy()  # threads that answer a page may add to it meanwhile
        self._attended = {rank: at for rank, at in attended.items() if now - at < _ATTENDED_S}
        named = (alert.finding.rank for alert in book.open_alerts())
        return {*self._attended, *(rank for rank in named if rank is not None)}

    def _arrived(self) -> Iterator[Envelope]:
        while True:
            try:
                envelope = self._inbox.popleft()
            except IndexError:  # the inbox is empty, or `take` just emptied it
                return
            yield envelope

    def _load(self) -> tuple[WindowBuilder, Judge]:
        """Load the run from the store on first use, so that a restarted server continues it."""
        if self._builder is None:
            self._builder = (
                WindowBuilder(self.run_id, in_part=True)
                if self._is_new
                else rebuild(self._store, self.run_id)
            )
        if self._judge is None:
            self._judge = Judge(self.run_id, () if self._is_new else self._store.alerts(self.run_id))
        return self._builder, self._judge

    def _report(self, fault: Exception) -> None:
        self.detector_faults += 1
        text = repr(fault)
        if text != self._last_fault:  # a fault that repeats every second is logged once
            self._last_fault = text
            _log.error("run %s: a detector failed: %s", self.run_id, text, exc_info=fault)

    def _ask_for_stacks(self, book: AlertBook, window: RunWindow) -> None:
        """Ask for all ranks' stacks in or before a hang, also outside their loops: they show who waits."""
        hangs = [alert.finding for alert in book.open_alerts() if alert.finding.code == "hung"]
        if not hangs and not somebody_waits(window):
            return
        bare = {finding.rank for finding in hangs if finding.rank is not None and not finding.stacks}
        self._commands.want_stacks_again(sorted(bare.union(without_stack(window))))

    def _tell(self, announcements: Sequence[Announcement], window: RunWindow) -> list[Announcement]:
        """Save the alerts, leave lines for the job's stderr, and return the announcements for people.

        If other servers may continue the run, only stored announcements are returned: none is repeated.
        """
        self._untold += announcements
        shared = self._store.shared
        saved = self._judge is not None and self._save(self._judge.book, now=shared and bool(self._untold))
        if shared and not saved:
            return []
        told, self._untold = self._untold, []
        for announcement in told:
            self._leave_notice(announcement, window)
        return told

    def _leave_notice(self, announcement: Announcement, window: RunWindow) -> None:
        if self._describe is None:
            return
        rank = announcement.alert.finding.rank
        named = None if rank is None else window.ranks.get(rank)
        process = _speaker(window) if named is None else Process.of(named.process)
        if process is not None:
            self._commands.leave(process, self._describe(announcement))

    def _save(self, book: AlertBook, *, now: bool = False) -> bool:
        """Save the changes if it is time; return False if the store refused."""
        if not (now or book.urgent or time.monotonic() - self._saved_at > _SAVE_INTERVAL_S):
            return True
        unsaved = book.take_unsaved()
        if not unsaved:
            return True
        self._saved_at = time.monotonic()
        try:
            self._store.save_alerts(self.run_id, unsaved)
        except StoreError as error:
            _log.warning("run %s: alerts are not saved yet: %s", self.run_id, error)
            book.put_back(unsaved)
            return False
        return True

    def _verdict_now(
        self, evidence: RunEvidence, alerts: Sequence[Alert], state: RunStatus
    ) -> Verdict | None:
        """Return a live run's verdict by the detectors' last pass; None before an attempt's first pass."""
        refused = None if self.ended else self._refused
        if state == "live" and refused is None:
            judged = self._judged
            return self._verdict if judged is not None and judged.attempt == evidence.window.attempt else None
        silent_s = time.monotonic() - self.heard_at
        return verdict_of(state, lambda: evidence, alerts, silent_s=silent_s, refused=refused)

    def _process_of(self, rank: int) -> Process | None:
        window = self.window()
        rank_window = (window.ranks.get(rank) or window.summed.get(rank)) if window else None
        return Process.of(rank_window.process) if rank_window else None


def _speaker(window: RunWindow) -> Process | None:
    """Return the process of the lowest rank, whose stderr people read; None if no rank is known."""
    lowest = min((rank for rank in window.ranks if rank >= 0), default=None)
    return None if lowest is None else Process.of(window.ranks[lowest].process)
