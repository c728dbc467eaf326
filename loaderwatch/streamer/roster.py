"""The roster: the training processes and workers of the run on this host, and whether they live."""

from __future__ import annotations

import logging
import os
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from loaderwatch.core.environment_variables import KEPT_OUTPUT
from loaderwatch.core.facts import Call, OutputFile, ProcessInfo
from loaderwatch.core.printable import printable
from loaderwatch.core.records import UNKNOWN, Phase
from loaderwatch.core.ring.span import OpenSpan
from loaderwatch.core.system import PROC
from loaderwatch.core.wire import decode_json
from loaderwatch.streamer.outbox.files import set_aside
from loaderwatch.streamer.rings import RingFolder, TrackedRing
from loaderwatch.streamer.samplers.process import process_began_s
from loaderwatch.streamer.samplers.procfs import ProcessFiles, Stat, started_after
from loaderwatch.streamer.training_loops import in_loops

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# linux/pidfd.h, struct pidfd_info: u64 mask, u64 cgroup, eleven u32 of ids, s32 exit_code
_INFO: Final = struct.Struct("=QQ11Ii")
_GET_INFO: Final = (3 << 30) | (_INFO.size << 16) | (0xFF << 8) | 11
_EXIT: Final = 1 << 3


class Handle:
    """A pidfd of one process. Opened in its lifetime, it gives the exit code even after the parent's wait."""

    def __init__(self, pid: int, proc_root: Path = PROC) -> None:
        self._stat = proc_root / str(pid) / "stat"
        self._descriptor: int | None = None
        if hasattr(os, "pidfd_open"):
            try:
                self._descriptor = os.pidfd_open(pid)
            except OSError:
                return  # the process is gone, or a sandbox forbids this

    def exit_code(self) -> int | None:
        """Return the exit code as in ``subprocess`` (-9 is SIGKILL); None if the kernel does not say.

        Linux says it since 6.15; before, only until the parent has waited for the process.
        """
        if self._descriptor is None:
            return None
        status = self._collected()
        if status is None:
            status = self._uncollected()
        if status is None:
            status = self._collected()  # the parent has just waited for it
        return None if status is None else os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        """Close the handle."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _collected(self) -> int | None:
        if fcntl is None or self._descriptor is None:
            return None
        answer = bytearray(_INFO.pack(_EXIT, *[0] * 13))
        try:
            fcntl.ioctl(self._descriptor, _GET_INFO, answer)
        except OSError:
            return None  # an older kernel
        mask, *_, status = _INFO.unpack(answer)
        return status if mask & _EXIT else None

    def _uncollected(self) -> int | None:
        """Return the last field of a zombie's ``stat``; it is also 0 for a reader without permission."""
        try:
            fields = self._stat.read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return int(fields[-1]) or None if fields and fields[0] in "ZX" else None


MOST_LINES: Final = 20
MOST_CHARACTERS: Final = 500  # of a line
_TAIL_BYTES: Final = 64 * 1024


def last_lines(environ: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the last lines of each file, without control characters; empty if none is named or readable."""
    try:
        files = decode_json(KEPT_OUTPUT.read(environ), list[OutputFile])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return {}
    lines_by_name = {file.name: _lines(_tail(file)) for file in files}
    return {name: lines for name, lines in lines_by_name.items() if lines}


def _tail(file: OutputFile) -> bytes:
    """Return the end of the job's output; empty if another file now has that name."""
    try:
        # do not block if the name is now a named pipe
        descriptor = os.open(file.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as opened:
            now = os.fstat(opened.fileno())
            if (now.st_dev, now.st_ino) != (file.device, file.inode):
                return b""
            begin = file.size if now.st_size >= file.size else 0  # the file was emptied meanwhile
            opened.seek(max(begin, now.st_size - _TAIL_BYTES))
            return opened.read(_TAIL_BYTES)
    except OSError:
        return b""


def _lines(tail: bytes) -> list[str]:
    """Return the last lines as a terminal shows them: a progress bar's last state."""
    text = tail.decode("utf-8", "replace").replace("\r\n", "\n")
    shown = [printable(line.rstrip("\r").rpartition("\r")[2])[:MOST_CHARACTERS] for line in text.split("\n")]
    return [line for line in shown if line.strip()][-MOST_LINES:]


log = logging.getLogger(__name__)

DEAD_WORKER_HELD_NS = 3_000_000_000
"""How long a worker that died stays visible after the training process has left its loader."""


@dataclass(slots=True)
class Member:
    """One process that writes a ring, and what is known of it."""

    ring: TrackedRing
    files: ProcessFiles
    alive: bool = True
    died_ns: int = 0  # monotonic time at which the death was noticed
    start_ticks: int | None = None
    began_s: float | None = None  # start time where there is no /proc
    stat: Stat | None = None
    drained: bool = False  # dead, and its last records are in an envelope on disk
    handle: Handle | None = None  # training processes only, while they live
    last_lines: dict[str, list[str]] = field(default_factory=dict)  # of the job, once it has crashed
    exit_code: int | None = None  # of a dead process, as in ``subprocess``; None if unknown
    final_cursor: int | None = None  # dead and read to the end: the cursor that an envelope must cover
    info: ProcessInfo | None = None  # training processes only, as the process wrote it
    info_mark: tuple[int, int] = field(default=(0, 0))
    model_calls: Sequence[Call] = ()  # the places that call the model to train

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.ring.identity.pid

    @property
    def worker(self) -> int:
        """-1: the training process."""
        return self.ring.identity.worker

    @property
    def finished(self) -> bool:
        """Whether it ended without an error. ``sys.exit(143)`` leaves no error, only its exit code."""
        return self.ring.reader.status().finished and (self.exit_code or 0) <= 0

    def let_go(self) -> None:
        """Close this process's handle and files."""
        self.files.close()
        if self.handle is not None:
            self.handle.close()
            self.handle = None


class Roster:
    """Follows the processes that write the rings of a folder."""

    def __init__(self, folder: RingFolder, proc_root: Path = PROC) -> None:
        self.folder = folder
        self._proc_root = proc_root
        self._has_proc = proc_root.is_dir()
        self.mains: dict[int, Member] = {}  # by pid
        self.workers: list[Member] = []
        self._faults_of_gone_workers: Counter[int] = Counter()  # by pid of their training process
        self.last_new_main_ns = 0

    def refresh(self, now_ns: int) -> None:
        """Add processes of new rings and read changed descriptions."""
        if not self.folder.refresh(now_ns):
            return
        known = {id(member.ring) for member in self.members()}
        for ring in self.folder.rings.values():
            if id(ring) not in known:
                self._add(ring, now_ns)
        for member in self.mains.values():
            self._read_info(member)

    def members(self) -> list[Member]:
        """Return all processes, training processes first."""
        return [*self.mains.values(), *self.workers]

    def main_of(self, member: Member) -> Member | None:
        """Return the training process that a worker belongs to, or the training process itself."""
        return member if member.worker < 0 else self.mains.get(member.ring.identity.parent_pid)

    def rank_of(self, member: Member) -> int | None:
        """Return a process's rank; None until its training process has published the rank."""
        main = self.main_of(member)
        return main.info.rank if main is not None and main.info is not None else None

    def of_rank(self, rank: int) -> list[Member]:
        """Return the newest training process of a rank, and its workers."""
        main = self.newest_by_rank().get(rank)
        if main is None:
            return []
        return [main, *(w for w in self.workers if w.ring.identity.parent_pid == main.pid)]

    def newest_by_rank(self) -> dict[int, Member]:
        """Return the newest training process of each rank; an elastic restart leaves dead ones behind."""
        newest: dict[int, Member] = {}
        for member in self.mains.values():
            if member.info is None:
                continue
            other = newest.get(member.info.rank)
            if other is None or other.ring.identity.created_ns < member.ring.identity.created_ns:
                newest[member.info.rank] = member
        return newest

    def check_alive(self, now_ns: int) -> None:
        """Check which processes have died."""
        for member in self.members():
            if member.alive and not self._look(member):
                self._note_end(member, now_ns)

    def describe(self) -> list[ProcessInfo]:
        """Return the training processes as the envelope describes them."""
        in_workers = self._faults_of_gone_workers.copy()
        for worker in self.workers:
            in_workers[worker.ring.identity.parent_pid] += worker.ring.reader.status().faults
        result = []
        for member in self.newest_by_rank().values():
            info = member.info
            if info is None:
                continue
            status = member.ring.reader.status()
            state = "live" if member.alive else "finished" if member.finished else "crashed"
            faults = status.faults + in_workers[member.pid]
            span = None if member.alive else member.ring.span()
            result.append(
                msgspec.structs.replace(
                    info,
                    state=state,
                    steps=None if span is None else span.steps,
                    exit_code=member.exit_code,
                    last_lines=member.last_lines if state == "crashed" else {},
                    faults=faults,
                    tripped=status.tripped,
                )
            )
        return result

    def all_dead(self) -> bool:
        """Whether no training process is left."""
        return not any(member.alive for member in self.mains.values())

    def retire(self, now_ns: int) -> None:
        """Drop rings whose writer is dead and whose records are in the outbox."""
        newest = {id(member) for member in self.newest_by_rank().values()}
        for worker in [w for w in self.workers if w.drained and not self._still_awaited(w, now_ns)]:
            self._faults_of_gone_workers[worker.ring.identity.parent_pid] += (
                worker.ring.reader.status().faults
            )
            self._drop(worker)
            self.workers.remove(worker)
        for pid, main in list(self.mains.items()):
            if main.drained and main.info is not None and id(main) not in newest:
                self._drop(main)
                del self.mains[pid]

    def drop_workers(self) -> None:
        """Drop all workers, when every training process has ended."""
        for worker in self.workers:
            self._drop(worker)
        self.workers.clear()

    def close(self) -> None:
        """Close the files of /proc."""
        for member in self.members():
            member.let_go()

    def _drop(self, member: Member) -> None:
        member.let_go()
        self.folder.forget(member.ring)

    def _still_awaited(self, worker: Member, now_ns: int) -> bool:
        """Whether a worker that died without notice is kept: its training process may be waiting for it."""
        if worker.ring.reader.status().finished:
            return False
        main = self.main_of(worker)
        if main is None or not main.alive:
            return False
        identity = worker.ring.identity
        if any(
            w is not worker
            and w.ring.identity.created_ns > identity.created_ns
            and (w.ring.identity.parent_pid, w.ring.identity.loader, w.worker)
            == (identity.parent_pid, identity.loader, identity.worker)
            for w in self.workers
        ):
            return False
        if now_ns - worker.died_ns < DEAD_WORKER_HELD_NS:
            return True
        # The batches it had read ahead may last for minutes of slow steps before the loop waits for it.
        span: OpenSpan | None = main.ring.span()
        return (
            span is not None
            and span.phase is not Phase.OUTSIDE
            and (span.loader in (UNKNOWN, identity.loader) or span.since_ns < worker.died_ns)
        )

    def _add(self, ring: TrackedRing, now_ns: int) -> None:
        member = Member(ring, ProcessFiles(ring.identity.pid, self._proc_root))
        if ring.is_main:
            member.handle = Handle(member.pid, self._proc_root)
        if not self._look(member):
            self._note_end(member, now_ns)
        if ring.is_main:
            replaced = self.mains.get(member.pid)
            if replaced is not None:
                replaced.let_go()
            self.mains[member.pid] = member
            self.last_new_main_ns = now_ns
            self._read_info(member)
        else:
            self.workers.append(member)

    @staticmethod
    def _note_end(member: Member, now_ns: int) -> None:
        member.alive, member.died_ns = False, now_ns
        if member.handle is not None:
            if member.start_ticks is not None:  # else the pid may belong to another process
                member.exit_code = member.handle.exit_code()
            member.handle.close()
            member.handle = None
        if member.worker < 0 and not member.finished:
            member.last_lines = last_lines(os.environ)

    def _look(self, member: Member) -> bool:
        if not self._has_proc:
            began_s = process_began_s(member.pid)
            if member.began_s is None:
                member.began_s = began_s
            return began_s is not None and began_s == member.began_s  # else the pid was reused
        stat = member.files.stat()
        if stat is None or not stat.alive:
            return False
        if member.start_ticks is None:
            if started_after(stat, member.ring.identity.created_ns):
                return False  # the pid was reused
            member.start_ticks = stat.start_ticks
        member.stat = stat
        return stat.start_ticks == member.start_ticks

    def _read_info(self, member: Member) -> None:
        path = member.ring.info_path
        try:
            stat = os.stat(path)  # noqa: PTH116 - with every change of the folder
            mark = (stat.st_ino, stat.st_mtime_ns)
            if mark == member.info_mark:
                return
            data = path.read_bytes()
        except OSError:
            return  # the description is not written yet
        member.info_mark = mark
        try:
            info = decode_json(data, ProcessInfo)
            member.model_calls = info.model_calls
            member.info = msgspec.structs.replace(info, calls=in_loops(info.calls, info.cwd), model_calls=[])
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            log.warning("%s is not a process description (%s); set aside as .corrupt", path, error)
            set_aside(path, folder=self.folder.aside)
