"""Takes samples of stacks at random moments, and counts equal ones.

At each moment it looks at every rank's open span. A rank that loses time (it waits for data, begins or ends
an epoch, evaluates, or runs the script's own code) gives a sample. So the samples are in proportion to the
lost time, and the share of a line among them estimates its share of that time. A rank that computes gives a
sample about once a minute, as a baseline.
"""

from __future__ import annotations

import logging
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from loaderwatch.core.clock import SECOND_NS, monotonic_ns
from loaderwatch.core.facts import ProfileStack, StackDump
from loaderwatch.core.records import PROFILE_S, UNKNOWN, Phase, ProfilePart, Row, ThreadState, pack_row
from loaderwatch.core.ring.span import OpenSpan
from loaderwatch.streamer.profile.layouts import LAYOUTS
from loaderwatch.streamer.profile.remote_stack import NotPermitted, Place, RemoteStacks, Unreadable
from loaderwatch.streamer.profile.thread_states import ThreadStates
from loaderwatch.streamer.roster import Member, Roster

log = logging.getLogger(__name__)

MOMENTS_PER_S: Final = 20.0
"""Random moments per second. A share of one half is then known within 3 points (95 %) after a minute."""
CPU_RATIO: Final = 0.01
"""Share of a CPU that sampling may take; with many ranks the moments are fewer."""
HEALTHY_RATIO: Final = 1 / (60 * MOMENTS_PER_S)
"""Probability of a sample while a rank computes: about one per minute."""
LONGER: Final = 2.0
"""A step that is longer than the shortest usual one by this factor loses time in the model, too."""
MOST_SENT: Final = 200
"""Stacks sent every ``PROFILE_S``; the others are one number."""
NEW_TEXTS_PER_HOUR: Final = 600
"""New texts sent per hour and rank: at about 1 kB each, at most 14 MB a day."""
AGAIN_NS: Final = 900 * SECOND_NS
"""After this time a text is sent again with its next count, for a server that started meanwhile.

200 texts of 1 kB each are then 19 MB a day.
"""
ASK_NS: Final = 5 * SECOND_NS
"""Least time between two signals to a rank's processes, where their memory cannot be read."""
STOP_S: Final = 5.0
"""Longest wait for the sampling thread at the end, in seconds."""
_ON_CPU: Final = frozenset({ThreadState.RUNNING, ThreadState.RUNNABLE})
HOUR_NS: Final = 3600 * SECOND_NS
_LINE: Final = re.compile(r'^  File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE)
_LIBRARY: Final = "/loaderwatch/agent/"
_WORKER_LOOP: Final = "torch/utils/data/_utils/worker.py"
_COMPUTES: Final = frozenset({Phase.H2D, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER})
_FETCHES: Final = frozenset({Phase.FETCH, Phase.COLLATE})


class _Key(NamedTuple):
    rank: int
    loader: int
    worker: int
    part: ProfilePart
    state: ThreadState
    text: str  # "": not read


class Watched(NamedTuple):
    """What the sampler knows of a rank; the streamer's loop renews it."""

    rank: int
    main: Member
    workers: Sequence[Member]
    evaluating: frozenset[int]  # loaders for evaluation
    loaderless: int | None  # the loader that stands for the time between two steps
    longer: bool  # its steps have become longer


class Asked(NamedTuple):
    """A stack to take by a signal, because the memory of the process cannot be read."""

    key: _Key  # without its text
    pid: int
    readers: int


class _Process:
    """Reads one process."""

    def __init__(self, member: Member, chance: random.Random, since_s: float) -> None:
        self.member = member
        self.thread = member.ring.reader.thread()
        self._states = ThreadStates(member.pid, chance)
        self._stacks: RemoteStacks | None = None
        if self.thread is not None and self.thread.version in LAYOUTS:
            with suppress(OSError):  # this system reads no other process's memory
                self._stacks = RemoteStacks(member.pid, self.thread.version, self.thread.code_type, since_s)

    def sample(self) -> tuple[ThreadState, str | None] | None:
        """Return what the thread does and its stack's text; None if the process has ended.

        The text is "" if the stack changed while it was read. It is None if the system forbids reading, or
        if this Python's memory is not known. If a thread waited before the stack was read and has run since,
        its state is read again, as the old state belongs to another line. The stack is kept: reading it
        again would prefer lines that take long.
        """
        thread = self.member.pid if self.thread is None else self.thread.native_id
        peek = _nothing if self._stacks is None else self._stacks.bytes_at
        state = self._states.state(thread, peek)
        try:
            text = self._text()
        except ProcessLookupError:
            return None
        if state not in _ON_CPU and self._states.has_run(thread):
            state = self._states.state(thread, peek)
        return None if state is None else (state, text)

    def _text(self) -> str | None:
        if self._stacks is None or self.thread is None:
            return None
        try:
            return as_text(self._stacks.stack(self.thread.state))
        except Unreadable:
            return ""
        except NotPermitted:
            return None


def _nothing(address: int, size: int) -> bytes:
    raise Unreadable(f"{size} bytes at {address:#x}")


def as_text(stack: Sequence[Place]) -> str:
    """Return a stack in faulthandler's format, without our own frames and those below a worker's loop."""
    lines = ["Stack (most recent call first):"]
    for file, line, function in stack:
        if file.replace("\\", "/").endswith(_WORKER_LOOP):
            break
        if _LIBRARY not in file:
            lines.append(f'  File "{file}", line {line} in {function}')
    return "\n".join(lines) + "\n"


def cut_text(text: str) -> str:
    """Return the stack of the thread that matters in a dump of faulthandler's, as ``as_text`` has it."""
    stacks = re.split(r"\n(?=(?:Current t|T)hread )", text)
    chosen = next((stack for stack in stacks if stack.startswith("Current")), stacks[0])
    return as_text([(line["file"], int(line["line"]), line["function"]) for line in _LINE.finditer(chosen)])


class Sampler:
    """Samples the ranks of this host in a thread of its own."""

    def __init__(self, seed: int | None = None) -> None:
        self._chance = random.Random(seed)
        self._watched: Sequence[Watched] = ()
        self._shortest_ns: dict[int, float] = {}  # shortest usual step so far, by pid
        self._processes: dict[int, _Process] = {}  # by pid
        self._counts: Counter[_Key] = Counter()
        self._readers: Counter[_Key] = Counter()
        self._lock = threading.Lock()
        self._asked: dict[int, Asked] = {}  # by pid: to be taken by a signal
        self._awaited: dict[int, Asked] = {}  # by pid: a signal is under way
        self._asked_ns: dict[int, int] = {}  # by rank
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stack sampler", daemon=True)
        self._texts: dict[str, tuple[int, int]] = {}  # id and when it was last sent
        self._new_texts: list[int] = []  # when new texts were sent within the last hour
        self._taken_ns = monotonic_ns()
        self._since_s = time.time()

    def start(self) -> None:
        """Begin sampling."""
        self._thread.start()

    def stop(self) -> None:
        """End sampling. A thread that reads a source file from a dead mount is not awaited."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def watch(self, roster: Roster, usual_ns: Mapping[int, tuple[float, float]]) -> None:
        """Renew what is known of the ranks. ``usual_ns``: the usual (wait, step) of each rank."""
        self._watched = tuple(
            self._describe(rank, main, roster, usual_ns.get(rank, (0.0, 0.0))[1])
            for rank, main in roster.newest_by_rank().items()
            if main.alive
        )

    def _describe(self, rank: int, main: Member, roster: Roster, step_ns: float) -> Watched:
        loaders = main.info.loaders if main.info is not None else []
        shortest_ns = self._shortest_ns.get(main.pid, step_ns)
        if step_ns > 0:
            shortest_ns = self._shortest_ns[main.pid] = min(step_ns, shortest_ns or step_ns)
        return Watched(
            rank,
            main,
            [member for member in roster.of_rank(rank) if member.worker >= 0 and member.alive],
            frozenset(info.loader for info in loaders if info.role != "train"),
            next((info.loader for info in loaders if info.between_steps), None),
            step_ns > LONGER * shortest_ns > 0,
        )

    def take(self, now_ns: int, wall_offset_ns: int, *, final: bool) -> tuple[list[Row], list[ProfileStack]]:
        """Return the counts since the last call and new texts of their stacks; nothing before ``PROFILE_S``.

        ``final``: return them now. If their envelope is refused, they are lost; the processes have ended.
        """
        if now_ns - self._taken_ns < PROFILE_S * SECOND_NS and not final:
            return [], []
        self._taken_ns = now_ns
        with self._lock:
            counts, self._counts = self._counts, Counter()
            readers, self._readers = self._readers, Counter()
        self._new_texts = [at for at in self._new_texts if now_ns - at < HOUR_NS]
        self._texts = {text: sent for text, sent in self._texts.items() if now_ns - sent[1] < HOUR_NS}
        texts: list[ProfileStack] = []
        rows: Counter[_Key] = Counter()
        rows_readers: Counter[_Key] = Counter()
        most = NEW_TEXTS_PER_HOUR * max(1, len({key.rank for key in counts}))
        for place, (key, samples) in enumerate(counts.most_common()):
            kept = key if place < MOST_SENT and self._named(key.text, now_ns, texts, most) else _rare(key)
            rows[kept] += samples
            rows_readers[kept] += readers[key]
        return [
            pack_row(
                "profile",
                {
                    "rank": key.rank,
                    "loader": key.loader,
                    "worker": key.worker,
                    "t_ns": now_ns + wall_offset_ns,
                    "part": key.part,
                    "state": key.state,
                    "stack": self._texts[key.text][0] if key.text else 0,
                    "samples": samples,
                    "readers": rows_readers[key],
                },
            )
            for key, samples in rows.items()
        ], texts

    def _named(self, text: str, now_ns: int, texts: list[ProfileStack], most: int) -> bool:
        """Whether a text has an id; it is added to ``texts`` if it is due."""
        known = self._texts.get(text)
        if known is None and (not text or len(self._new_texts) >= most):
            return False
        number = known[0] if known is not None else self._chance.getrandbits(61) + 1
        if known is None or now_ns - known[1] >= AGAIN_NS:
            if known is None:
                self._new_texts.append(now_ns)
            self._texts[text] = number, now_ns
            texts.append(ProfileStack(id=number, text=text))
        return True

    def _run(self) -> None:
        pause_s = 1 / MOMENTS_PER_S
        while not self._ended.wait(self._chance.uniform(0, 2 * pause_s)):
            began_ns = time.thread_time_ns()
            try:
                for watched in self._watched:
                    self._look(watched)
            except Exception:
                log.exception("the stack sampler ended")
                return
            spent_s = (time.thread_time_ns() - began_ns) / 1e9
            pause_s += 0.05 * (max(1 / MOMENTS_PER_S, spent_s / CPU_RATIO) - pause_s)

    def _look(self, watched: Watched) -> None:
        with suppress(ValueError):  # a ring is closed once its process has ended and everything was read
            self._sample(watched)

    def _sample(self, watched: Watched) -> None:
        reader = watched.main.ring.reader
        span = reader.span() if watched.main.alive and not reader.status().finished else None
        if span is None:
            return
        part = self._part(watched, span)
        if part is None:
            return
        loader = watched.loaderless if span.phase is Phase.OUTSIDE else span.loader
        member, readers = watched.main, 0
        if part is ProfilePart.FETCH:
            fetching = [
                worker
                for worker in watched.workers
                if worker.ring.identity.loader == loader and _fetches(worker)
            ]
            readers = len(fetching)
            member = self._chance.choice(fetching) if fetching else member
        process = self._process(member)
        sample = process.sample()
        if sample is None:
            return
        state, text = sample
        loader = UNKNOWN if loader is None else loader
        key = _Key(watched.rank, loader, member.worker, part, state, text or "")
        if text is not None:
            self._count(key, readers)
        else:
            self._ask(Asked(key, member.pid, readers), monotonic_ns())

    def _count(self, key: _Key, readers: int) -> None:
        with self._lock:
            self._counts[key] += 1
            self._readers[key] += readers

    def _ask(self, asked: Asked, now_ns: int) -> None:
        rank = asked.key.rank
        with self._lock:
            if now_ns - self._asked_ns.get(rank, -ASK_NS) >= ASK_NS:
                self._asked_ns[rank] = now_ns
                self._asked[asked.pid] = asked

    def asked(self) -> list[Asked]:
        """Return the stacks to take by a signal now, each once: at most one per rank and ``ASK_NS``."""
        with self._lock:
            asked, self._asked = self._asked, {}
        self._awaited |= asked
        return list(asked.values())

    def answer(self, dump: StackDump) -> None:
        """Count a stack that was taken by a signal."""
        asked = self._awaited.pop(dump.pid, None)
        if asked is not None and dump.text:
            self._count(asked.key._replace(text=cut_text(dump.text)), asked.readers)

    def _part(self, watched: Watched, span: OpenSpan) -> ProfilePart | None:
        """Return the part of the training that loses time now; None if it loses none, or is not looked at."""
        if span.phase is Phase.WAIT:
            return ProfilePart.FETCH
        if span.phase in (Phase.ITER, Phase.TEARDOWN):
            return ProfilePart.BOUNDARY
        if span.phase is Phase.OUTSIDE:
            if watched.loaderless is not None:
                return ProfilePart.FETCH
            return ProfilePart.BOUNDARY if span.batches else None
        part = ProfilePart.EVALUATION if span.loader in watched.evaluating else ProfilePart.STEP
        computes = span.phase in _COMPUTES and not watched.longer
        return None if computes and self._chance.random() >= HEALTHY_RATIO else part

    def _process(self, member: Member) -> _Process:
        process = self._processes.get(member.pid)
        if process is None or process.member is not member or process.thread is None:
            alive = {m.pid for watched in self._watched for m in (watched.main, *watched.workers)}
            self._processes = {pid: known for pid, known in self._processes.items() if pid in alive}
            process = self._processes[member.pid] = _Process(member, self._chance, self._since_s)
        return process


def _fetches(worker: Member) -> bool:
    span = worker.ring.span() if worker.alive else None
    return span is not None and span.phase in _FETCHES


def _rare(key: _Key) -> _Key:
    return key._replace(text="")
