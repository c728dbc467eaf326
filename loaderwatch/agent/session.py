"""The session of a training process: its ring, its description for the streamer, and its end."""

from __future__ import annotations

import atexit
import errno
import multiprocessing
import os
import platform
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from loaderwatch.agent.guard import guard, has_stderr, in_own_language, say, shield
from loaderwatch.agent.loaders.lineage import Lineage
from loaderwatch.agent.loaders.naming import unique
from loaderwatch.agent.process.closing_lines import how_ended, keep_interrupted, say_closing, why_failed
from loaderwatch.agent.process.garbage import watch_collections
from loaderwatch.agent.process.identity import (
    Ranks,
    RunName,
    find_gpu_uuid,
    find_ranks,
    find_run,
    group_facts,
    script_name,
    thread_limits,
)
from loaderwatch.agent.process.launch import keep_streamer, share_stderr, start_streamer
from loaderwatch.agent.process.printed_once import say_once
from loaderwatch.agent.process.readable_thread import publish_thread
from loaderwatch.agent.process.stack_signal import free_signal, register_stacks, release_stacks
from loaderwatch.agent.recorder import Recorder
from loaderwatch.agent.source import MOST_CALLS, calls_outside
from loaderwatch.agent.workers.ended_workers import left_behind, why_ended
from loaderwatch.agent.workers.failed_sample import failed_sample, told
from loaderwatch.agent.workers.fetch import FetchClock
from loaderwatch.agent.workers.probe import WorkerProbe
from loaderwatch.agent.workers.sample_limit import SampleLimit
from loaderwatch.core.clock import monotonic_ns, wall_ns
from loaderwatch.core.config import Settings
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.facts import LoaderInfo, ProcessInfo
from loaderwatch.core.files import NotPrivate, own_folder, write_atomically
from loaderwatch.core.records import Phase
from loaderwatch.core.ring import MAIN_CAPACITY, RingIdentity, RingStatus, RingWriter
from loaderwatch.core.system import SHM
from loaderwatch.core.wire import CLOSED_NAME

MAX_PHASE_NAMES: Final = 256


class Session:
    """The ring, the description and the recorder of one training process while it is watched.

    Without ``ranks``, the ranks are looked up.

    Raises:
        OSError: the session's files cannot be created.
    """

    def __init__(self, settings: Settings, run: RunName, ranks: Ranks | None = None) -> None:
        self.settings = settings
        self.run = run
        self.pid = os.getpid()
        self.folder = settings.rings_dir / run.run_id
        settings.check_own()
        self.on_close: list[Callable[[], None]] = []
        self.on_end: list[Callable[[], None]] = []  # print lines when the process ends
        self.lineage = Lineage()
        self.addresses: tuple[str, ...] | None = None  # whom to notify; None: not looked up yet
        self.unasked = False  # `loaderwatch run` opened the session, and nobody has attached since
        self._changing = threading.RLock()  # several threads may begin an epoch at the same time
        ring = self._make_ring()
        self.recorder = Recorder(ring)
        self.stack_signal = free_signal()
        if not register_stacks(self._file("stack"), self.stack_signal):
            self.stack_signal = 0
        self._finished = False
        self.error: BaseException | None = None  # the error that ended the process
        self._died_of_sample = False  # a fetch raised exactly that error
        self.watched_ns = monotonic_ns()  # when a streamer was last started or checked
        self.info = self._describe(ranks or find_ranks())
        self.write_info()
        self.publish_status()
        shield(publish_thread, passing=ConfigError)(ring)
        ring.set_span(Phase.OUTSIDE, monotonic_ns())

    def _make_ring(self) -> RingWriter:
        identity = RingIdentity(self.pid, self.pid, -1, -1, monotonic_ns())
        attempts_left = 3
        while True:
            own_folder(own_folder(self.settings.rings_dir) / self.folder.name)
            try:
                ring = RingWriter(self._file("ring"), identity, MAIN_CAPACITY)
            except FileNotFoundError:
                # An earlier run with this name has just ended, and its streamer removed the folder.
                attempts_left -= 1
                if not attempts_left:
                    raise
            else:
                (self.folder / CLOSED_NAME).unlink(missing_ok=True)  # an attempt before this one has ended
                return ring

    def _file(self, ending: str) -> Path:
        return self.folder / f"main-{self.pid}.{ending}"

    def _describe(self, ranks: Ranks) -> ProcessInfo:
        torch = sys.modules.get("torch")
        return ProcessInfo(
            pid=self.pid,
            rank=ranks.rank,
            local_rank=ranks.local_rank,
            world_size=ranks.world_size,
            started_ns=wall_ns(),
            name=script_name(),
            argv=[argument[:1000] for argument in sys.argv[:100]],
            cwd=_working_directory(),
            python=platform.python_version(),
            torch=str(getattr(torch, "__version__", "")) or None,
            gpu_uuid=find_gpu_uuid(),
            thread_limits=thread_limits(),
            has_stderr=has_stderr(),
            **group_facts(),
            terminal=os.isatty(0),
            redact=self.settings.redact,
        )

    def add_loader(self, info: LoaderInfo) -> LoaderInfo:
        """Describe one more loader; return the description with the loader's number and unique name."""
        with self._changing:
            known = self.info.loaders
            info = msgspec.structs.replace(info, loader=len(known), name=unique(info.name, known))
            self.change(loaders=[*known, info])
        return info

    def change_loader(self, number: int, **facts: Any) -> None:
        """Set facts of one loader's description and publish it."""
        with self._changing:
            loaders = [
                msgspec.structs.replace(info, **facts) if info.loader == number else info
                for info in self.info.loaders
            ]
            self.change(loaders=loaders)

    def note_calls(self, thread: int | None = None) -> None:
        """Publish where the training loader is iterated (in this thread or ``thread``), if it changed."""
        calls = calls_outside(thread)
        if calls != self.info.calls:
            self.change(calls=calls)

    def note_model_call(self) -> None:
        """Publish where the model is called right now, if the place is new."""
        known = self.info.model_calls
        new = [call for call in calls_outside(columns=True) if call not in known]
        if new and len(known) < MOST_CALLS:
            self.change(model_calls=[*known, *new])

    def note_reader(self, loader: int, thread: str, error: str | None) -> None:
        """Publish which function reads a loader in its own thread, and its error's type ("": unknown)."""
        known = self.info.loaders[loader]
        if error == "" and known.reader_error is not None:
            return
        calls = calls_outside()
        reader = calls[0].function if calls else thread
        if error is not None and known.reader is not None:
            reader = known.reader  # the error has already left the function
        if (known.reader, known.reader_error) != (reader, error):  # publishing writes a file
            self.change_loader(loader, reader=reader, reader_error=error)

    def phase_name(self, name: str) -> int:
        """Return the number of a user phase's name. With too many names, the rest share the last number."""
        with self._changing:
            names = self.info.phase_names
            try:
                return names.index(name)
            except ValueError:
                if len(names) >= MAX_PHASE_NAMES:
                    return MAX_PHASE_NAMES - 1
                self.change(phase_names=[*names, name[:200]])
                return len(names)

    def refresh(self) -> None:
        """Look up rank, process group and GPU again, often set up after ``attach``; check the streamer."""
        self.watched_ns = keep_streamer(self.settings, self.run, self.watched_ns)
        ranks = find_ranks()
        cuda = sys.modules.get("torch.cuda")
        facts = {
            "rank": ranks.rank,
            "local_rank": ranks.local_rank,
            "world_size": ranks.world_size,
            "cuda": bool(cuda is not None and cuda.is_initialized()),
            **group_facts(),
        }
        if any(getattr(self.info, name) != value for name, value in facts.items()):
            self.change(**facts, gpu_uuid=find_gpu_uuid())

    def change(self, **facts: Any) -> None:
        """Set facts of the process's description and publish it."""
        with self._changing:
            self.info = msgspec.structs.replace(self.info, **facts)
            self.write_info()

    def write_info(self) -> None:
        """Publish the description. A reader sees either the whole old one or the whole new one."""
        write_atomically(self._file("json"), msgspec.json.encode(self.info))

    def publish_status(self) -> None:
        """Publish the slowly changing facts."""
        self.recorder.ring.set_status(
            RingStatus(self._finished, self.stack_signal, guard.faults, guard.tripped)
        )

    def make_probe(
        self, loader: int, init: Callable[[int], None] | None, limit: SampleLimit | None
    ) -> WorkerProbe:
        """Return the ``worker_init_fn`` for workers of this loader."""
        return WorkerProbe(str(self.folder), self.pid, loader, self.stack_signal, init, limit)

    def make_fetch(self, loader: int) -> FetchClock:
        """Return the clock of this loader's fetches on the training thread."""
        return FetchClock(self.recorder.ring, loader, -1)

    def discard(self) -> None:
        """Remove the session's files, because no streamer will read them."""
        release_stacks(self.stack_signal)
        self.recorder.ring.close()
        for ending in ("ring", "json", "stack"):
            with suppress(OSError):
                self._file(ending).unlink()
        with suppress(OSError):
            self.folder.rmdir()

    @staticmethod
    def failure() -> BaseException | None:
        """Return the error with which the process ends; None if there is none."""
        return sys.exc_info()[1] or getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)

    def finish(self) -> None:
        """Publish that the process ends, and with which error."""
        if os.getpid() != self.pid or self._finished:
            return
        failure = self.failure()
        if isinstance(failure, SystemExit):
            failed = failure.code not in (None, 0)
            text = f"exit code {failure.code}"
        else:
            failed = failure is not None and not hasattr(sys, "ps1")
            text = "" if failure is None else why_failed(failure)
        if failed:
            self.error = failure
            failed_read = shield(failed_sample)(failure) if failure is not None else None
            sample, self._died_of_sample = failed_read or (None, False)
            with suppress(OSError):  # even if the folder was removed, this process must be able to end
                self.change(state="crashed", exit=text, failed=sample)
            for loader, worker, note in left_behind(self.folder, self.pid):
                name = next((info.name for info in self.info.loaders if info.loader == loader), None)
                say(in_own_language("sample-ended-worker", **why_ended(note, name, worker)))
        else:
            self._finished = True
            self.publish_status()
        # without a streamer nobody reads the last records
        keep_streamer(self.settings, self.run, self.watched_ns)

    def say_closing(self) -> None:
        """Print the run's last lines on rank 0, and on any rank that an error ended."""
        if self.pid != os.getpid() or not self.info.has_stderr or (self.info.rank and not self.error):
            return
        took_s, steps = max(0.0, (wall_ns() - self.info.started_ns) / 1e9), self.recorder.steps
        rank = self.info.rank if self.info.world_size > 1 else None
        sample = None if self.info.failed is None else told(self.info.failed)
        ended = (
            None
            if self.error is None
            else how_ended(self.error, steps, rank, sample, of_sample=self._died_of_sample)
        )
        say_closing(self.folder, self.run.name, steps, took_s, ended)


def _working_directory() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return ""  # somebody removed it


_session: Session | None = None
_exit_registered = False


def current_session() -> Session | None:
    """Return the open session of this process."""
    return _session


def open_session(
    settings: Settings, run: str | None, ranks: Ranks | None = None, *, unasked: bool = False
) -> Session | None:
    """Return the session of this process; if there is none, open one and start a streamer.

    If its files cannot be created, return None and print one line on stderr: training continues unwatched.

    Raises:
        ConfigError: ``run`` is no run name, or names another run than the open one.
    """
    global _session
    if _session is not None:
        _check_same(_session, settings, run)
        _session.unasked = _session.unasked and unasked
        return _session
    name = find_run(run if run is not None else settings.run, redact=settings.redact)
    try:
        if settings.substitute:
            own_folder(settings.data_dir)
        session = Session(settings, name, ranks)
    except NotPrivate as error:
        path, why = str(error.filename), str(error.strerror)
        say(in_own_language("folder-of-another-user", path=path, why=why))
        return None
    except OSError as error:
        place = Path(error.filename or settings.rings_dir)
        place = settings.rings_dir if place.parent.parent == settings.rings_dir else place
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        # Rings stay in /dev/shm whatever LOADERWATCH_DIR is.
        full_memory = str(SHM) if is_full and settings.rings_dir.is_relative_to(SHM) else None
        missing = {"path": str(place), "why": str(error.strerror), "shared_memory": full_memory}
        say_once(in_own_language("rings-not-written", **missing))
        return None
    if settings.substitute:
        say_once(in_own_language("data-dir-replaced", folder=str(settings.data_dir)))
    try:
        start_streamer(settings, name.run_id, name.name)
    except OSError as error:
        session.discard()  # without a streamer nobody reads the ring
        say_once(in_own_language("streamer-not-started", error=str(error)))
        return None
    _session = session
    session.unasked = unasked
    session.on_close.append(watch_collections(session.recorder.ring, -1))
    guard.on_fault = session.publish_status
    guard.tell = say_once
    _register_exit()
    if has_stderr():
        share_stderr()
    return session


def _check_same(session: Session, settings: Settings, run: str | None) -> None:
    """Raise if ``run`` is not the open run. If `loaderwatch run` opened that run, only print a line."""
    is_other_run = run is not None and find_run(run).run_id != session.run.run_id
    if is_other_run and not session.unasked:
        raise ConfigError(f"run is {run!r}, but this process already records run {session.run.run_id!r}")
    if is_other_run:
        recorded = repr(session.run.run_id)
        say_once(in_own_language("recorded-as-another-run", recorded=recorded, wanted=repr(run), name=run))
    if session.unasked and settings.server != session.settings.server:
        servers = {"server": session.settings.server or None, "wanted": str(settings.server)}
        say_once(in_own_language("sent-to-another-server", **servers))


def close_session() -> None:
    """Remove every hook and end the session; for tests, and after a fork."""
    global _session
    session, _session = _session, None
    if session is None:
        return
    if session.pid != os.getpid():
        session.recorder.mute()
    for close in reversed(session.on_close):
        close()
    session.finish()
    release_stacks(session.stack_signal)


def _register_exit() -> None:
    global _exit_registered
    if _exit_registered:
        return
    _exit_registered = True
    atexit.register(_exit)
    # Functions of atexit run only after Python has joined its threads, and that may take forever.
    register_before = getattr(threading, "_register_atexit", None)
    if register_before is not None:
        with suppress(RuntimeError):  # Python is about to end
            register_before(shield(_script_over))
    if multiprocessing.parent_process() is not None:
        from multiprocessing.util import Finalize  # a multiprocessing child leaves without atexit

        Finalize(None, _exit, exitpriority=-100)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=shield(close_session))


def _script_over() -> None:
    if _session is not None and _session.pid == os.getpid() and _session.failure() is None:
        _session.recorder.script_over(monotonic_ns())


def _exit() -> None:
    if _session is not None:
        shield(_session.finish)()
        for tell in _session.on_end:
            shield(tell)()
        shield(_session.say_closing)()
        if _session.pid == os.getpid() and _session.error is not None:
            shield(keep_interrupted)(_session.error)
