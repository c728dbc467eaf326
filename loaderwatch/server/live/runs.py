"""All live runs: a loop looks at each twice a second and runs its detectors once a second, in worker threads.

Deadlines are absolute. A look that is due while the last one still runs is skipped and counted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from loaderwatch.core.answers import Verdict
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.wire import ENVELOPE_S, Envelope
from loaderwatch.server.alerts.alert_book import Alert, Announcement
from loaderwatch.server.alerts.channel import Message
from loaderwatch.server.alerts.end_summary import summary_message
from loaderwatch.server.alerts.messages import message, notice, reminder
from loaderwatch.server.alerts.notify import Notifier
from loaderwatch.server.live.event_stream import Hub, RunState
from loaderwatch.server.live.run import LiveRun
from loaderwatch.server.store.protocol import Store, StoredRun, UnknownRun
from loaderwatch.server.times import envelope_s

_log = logging.getLogger(__name__)

LOOK_S: Final = 0.48  # between looks at one run: a streamer sends two envelopes a second
_LARGE_LOOK_S: Final = 0.75
"""The same while no rank stands still, if streams send seldom (``server.envelope_intervals``)."""
_LOOK_REST: Final = 1.0
"""Pause after a look, in durations of that look. Else ten thousand ranks would leave envelopes no time."""
_TURN_S: Final = 0.1  # between turns of the loop
_DETECT_S: Final = 1.0
_DETECT_REST: Final = 1.0  # pause after a pass, in durations of the last pass, while a rank stands still
_CALM_REST: Final = 3.0  # the same while no rank stands still
_CALM_S: Final = 3.0
_CALM_PART: Final = 19.0
"""Pause after a pass while no rank stands still, in durations of the pass, but at most until ``_CALM_S``
after its start. A slowdown can be reported a little later, and a pass over a large run is expensive."""
_DETECT_YIELD_S: Final = 0.5  # how long a pass of the detectors waits at most for the end of a look
_QUIET_LOOK_S: Final = 2.0  # how often a run without news is looked at, for its age and state
_LINGER_S: Final = 60.0  # how long an ended run stays in memory
FORGET_S: Final = 900.0  # how long a lost run stays in memory
_STOP_S: Final = 2.0  # how long the stop waits for looks and passes in progress
_THREADS: Final = 3

_T = TypeVar("_T")

MakeLiveRun = Callable[..., LiveRun]


def goes_on(run: StoredRun, now_ns: int) -> bool:
    """Whether a run is live, or ended so recently that its end may not have been judged yet."""
    silent_s = (now_ns - run.received_ns) / 1e9
    return silent_s < (FORGET_S if run.state == "live" else _LINGER_S)


@dataclass(slots=True)
class LookCounts:
    """Counts that show whether the loop keeps up."""

    looks: int = 0
    skipped: int = 0
    failed: int = 0
    late_s: float = 0.0


@dataclass(slots=True)
class _Times:
    """When a run was last looked at and judged (monotonic), and whether a look or pass is in progress."""

    looked_at: float = 0.0
    rests_until: float = 0.0  # no look at news starts before
    detected_at: float = 0.0
    looking: bool = False
    detecting: bool = False


class LiveRuns:
    """The runs whose envelopes arrive. Use it from the event loop only; looks and passes have threads."""

    def __init__(
        self,
        store: Store,
        hub: Hub,
        notifier: Notifier,
        base_url: Callable[[], str],
        *,
        make: MakeLiveRun = LiveRun,
        ended: Callable[[str, Verdict | None], None] | None = None,
    ) -> None:
        self._store = store
        self._hub = hub
        self._notifier = notifier
        self._base_url = base_url
        self._make = make
        self._ended = ended
        self._runs: dict[str, LiveRun] = {}
        self._stored: set[str] = set()  # runs that the store knew before this server heard of them
        self._times: dict[str, _Times] = {}
        self._working: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="loaderwatch-detect")
        self._task: asyncio.Task[None] | None = None
        self._failed: dict[str, str] = {}
        self.knows_all: Callable[[], bool] = lambda: True
        """Whether a run unknown to this server is also new to the store."""
        self.counts = LookCounts()
        self.held_bytes = 0  # the memory of all runs, as of the loop's last turn

    def all(self) -> list[LiveRun]:
        """Return every live run."""
        return list(self._runs.values())

    def get(self, run_id: str) -> LiveRun | None:
        """Return the live run with this id; None if it is not live."""
        return self._runs.get(run_id)

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._runs

    def held_by(self, run_id: str) -> int:
        """Return about how many bytes of memory a run takes; 0 if it is not live."""
        live = self._runs.get(run_id)
        return 0 if live is None else live.held_bytes

    def knows(self, run_id: str) -> bool:
        """Whether any data of this run was ever stored here."""
        return run_id in self._stored

    def start(self, *, go_on: bool = True) -> None:
        """Start the loop. With ``go_on``, continue the runs that were live when the server last stopped."""
        now_ns = time.time_ns()
        for run in self._store.runs():
            self._stored.add(run.run_id)
            if go_on and run.state == "live" and goes_on(run, now_ns):
                self.adopt(run)
        self._task = asyncio.create_task(self._loop(), name="loaderwatch-live")

    def adopt(self, run: StoredRun) -> None:
        """Continue a run from the store."""
        self._stored.add(run.run_id)
        live = self._add(run.run_id)
        live.heard_at -= max(0.0, (time.time_ns() - run.received_ns) / 1e9)

    def note_stored(self, run_ids: Iterable[str]) -> None:
        """Note that the store knows these runs."""
        self._stored.update(run_ids)

    async def hand_over(self, run_id: str) -> None:
        """Save and drop a run that another server continues. Its pages reconnect and are sent there."""
        live = self._runs.pop(run_id, None)
        self._times.pop(run_id, None)
        self._failed.pop(run_id, None)
        self._hub.moved(run_id)
        self._notifier.forget(run_id)
        if live is not None:
            await self._in_thread(live.close)

    async def stop(self) -> None:
        """Stop the loop and save all runs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._working:  # the findings of a pass still go out, and its look needs the threads
            await asyncio.wait(self._working, timeout=_STOP_S)
        loop = asyncio.get_running_loop()
        await asyncio.gather(
            *(loop.run_in_executor(self._threads, live.close) for live in self._runs.values()),
            return_exceptions=True,
        )
        self._threads.shutdown(wait=False, cancel_futures=True)

    def take(self, envelope: Envelope, weight: int) -> None:
        """Add an envelope that is now on disk; ``weight`` is its bytes of memory."""
        live = self._runs.get(envelope.run_id) or self._add(envelope.run_id)
        live.take(envelope, weight)

    def refuse(self, run_id: str, reason: str) -> None:
        """Note that envelopes of a run came but could not be stored."""
        live = self._runs.get(run_id)
        if live is not None:
            live.refuse(reason)

    def _add(self, run_id: str) -> LiveRun:
        def describe(announcement: Announcement) -> Callable[[str], str]:
            return partial(notice, announcement, run_id, self._base_url())

        live = self._make(
            run_id,
            self._store,
            is_new=run_id not in self._stored and self.knows_all(),
            describe=describe,
            base_url=self._base_url(),
        )
        live.notifies = self._notifier.learn(run_id)
        if run_id in self._stored:
            with suppress(UnknownRun):
                run = self._store.run(run_id)
                live.claims.seed(run.processes)
                if run.state != "live":
                    live.summarized = run.attempt  # its end was reported before
        self._stored.add(run_id)
        self._runs[run_id] = live
        return live

    async def state_of(self, live: LiveRun) -> RunState:
        """Return the run's newest state; if the run has just ended, never a state from before its end."""
        if live.latest is None or live.said_goodbye:
            return await self._look(live)
        return live.latest

    async def refresh(self, run_id: str) -> None:
        """Look at a run now, because an alert was changed by a person."""
        live = self._runs.get(run_id)
        if live is not None:
            await self._look(live)

    def drop(self, run_id: str) -> None:
        """Drop a run that was deleted."""
        self._runs.pop(run_id, None)
        self._stored.discard(run_id)
        self._times.pop(run_id, None)
        self._failed.pop(run_id, None)
        self._hub.gone(run_id)
        self._notifier.forget(run_id)

    async def _loop(self) -> None:
        deadline = time.monotonic()
        number = 0
        while True:
            deadline += _TURN_S
            delay = deadline - time.monotonic()
            if delay < -1.0:  # after a suspend or a long stop, do not catch up by running faster
                self.counts.late_s += -delay
                deadline = time.monotonic()
            await asyncio.sleep(max(0.0, delay))
            number += 1
            self.held_bytes = sum(live.held_bytes for live in self._runs.values())
            for live in list(self._runs.values()):
                self._schedule(live)
            if number % 10 == 0:
                self._notifier.tick()
            if number % 100 == 0:
                self._remind()
                self._forget_old()

    def _schedule(self, live: LiveRun) -> None:
        now = time.monotonic()
        times = self._times.setdefault(live.run_id, _Times())
        since_s = now - times.looked_at
        rested = now >= times.rests_until and since_s >= self._look_s(live)
        if (live.has_news and rested) or (since_s >= _QUIET_LOOK_S and not live.ended):
            if times.looking:
                self.counts.skipped += 1
            else:
                self._spawn(self._look_once(live, times))
            times.looking, times.looked_at = True, now
        # A long pass of the detectors (a thousand ranks) runs less often, and between two looks if possible:
        # side by side each would take twice as long, because both compute.
        waited_s = now - times.detected_at
        took_s = live.last_detect_s
        rest_s = _DETECT_REST * took_s
        if not live.stands:
            rest_s = max(_CALM_REST * took_s, min(_CALM_PART * took_s, _CALM_S))
        patience_s = max(_DETECT_S, rest_s) - _TURN_S / 2
        due = waited_s >= patience_s + (_DETECT_YIELD_S if times.looking else 0.0)
        if live.undetected and not times.detecting and due:
            times.detecting, times.detected_at = True, now
            self._spawn(self._detect_once(live, times))

    def _look_s(self, live: LiveRun) -> float:
        seldom = live.summary is not None and envelope_s(live.summary.world_size) > ENVELOPE_S
        return _LARGE_LOOK_S if seldom and not live.stands else LOOK_S

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _look_once(self, live: LiveRun, times: _Times) -> None:
        began = time.monotonic()
        try:
            await self._look(live)
            self._failed.pop(live.run_id, None)
        except Exception as error:  # noqa: BLE001 - a fault in one run must not stop the looks at the others
            self._note(live, error)
        finally:
            now = time.monotonic()
            times.looking, times.rests_until = False, now + _LOOK_REST * (now - began)

    async def _detect_once(self, live: LiveRun, times: _Times) -> None:
        try:
            await self._detect(live)
        except Exception as error:  # noqa: BLE001 - as above
            self._note(live, error)
        finally:
            times.detecting = False

    def _note(self, live: LiveRun, error: Exception) -> None:
        self.counts.failed += 1
        text = f"{type(error).__name__}: {error}"
        if self._failed.get(live.run_id) != text:  # a fault that repeats every second is logged once
            self._failed[live.run_id] = text
            known = isinstance(error, LoaderwatchError)
            _log.error("run %s: this look failed: %s", live.run_id, text, exc_info=None if known else error)

    async def _look(self, live: LiveRun) -> RunState:
        state = await self._in_thread(live.look)
        self.counts.looks += 1
        if self._runs.get(live.run_id) is live:  # the run was not deleted meanwhile
            self._hub.publish(live.run_id, state)
        return state

    async def _detect(self, live: LiveRun) -> None:
        announcements = await self._in_thread(live.detect, time.time_ns())
        live.notifies = self._notifier.learn(live.run_id)
        for trouble in self._notifier.troubles(live.run_id):
            live.say(trouble)
        self._tell(live, announcements)
        if announcements or live.ended or not live.has_news:
            await self._look(live)  # show new findings at once, other changes with the next look
        if live.ended:
            self._summarize(live)
        if live.ended and self._ended is not None:
            await self._in_thread(self._ended, live.run_id, live.summary and live.summary.verdict)

    async def _in_thread(self, work: Callable[..., _T], *args: Any) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)

    def _tell(self, live: LiveRun, announcements: list[Announcement]) -> None:
        for announcement in announcements:
            make_message = partial(message, announcement, live.run_id, live.name, self._base_url())
            self._notifier.tell(live.run_id, make_message, announcement.alert, over=announcement.resolved)

    def _remind(self) -> None:
        now_ns = time.time_ns()
        for live in self._runs.values():

            def still(alert: Alert, live: LiveRun = live) -> Callable[[str], Message]:
                return partial(reminder, alert, live.run_id, live.name, self._base_url(), now_ns)

            self._notifier.remind(live.run_id, live.firing(), still)

    def _summarize(self, live: LiveRun) -> None:
        """Report how a run went, once per attempt, to the people who asked for it."""
        summary, closing, took_s = live.summary, live.closing, live.took_s
        if summary is not None and closing is not None and live.summarized < summary.attempt:
            live.summarized = summary.attempt

            def told(language: str) -> Message:
                return summary_message(summary, closing(language), took_s, language)

            self._notifier.summarize(live.run_id, told)

    def _forget_old(self) -> None:
        now = time.monotonic()
        for run_id, live in list(self._runs.items()):
            times = self._times.get(run_id)
            if live.has_news or (times is not None and (times.looking or times.detecting)):
                continue
            if now - live.heard_at > (_LINGER_S if live.ended else FORGET_S):
                self._tell(live, live.let_go(time.time_ns()))
                if not live.ended:
                    self._summarize(live)
                self._notifier.forget(run_id)
                del self._runs[run_id]
                self._times.pop(run_id, None)
                self._failed.pop(run_id, None)
                self._hub.forget(run_id)
