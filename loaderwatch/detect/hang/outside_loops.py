"""A process that stands still outside any loader, with no partner to blame: slow on purpose, or S26."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from loaderwatch.core.answers import Evidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.limits import BUSY_CPU_RATIO, IDLE_CPU_RATIO
from loaderwatch.detect.measures.gpu import spins_in_collective
from loaderwatch.detect.measures.progress import Stuck, cpu_ratio, stack_of, stands_still
from loaderwatch.detect.measures.stacks import Frame, collective, compiling, main_frames, user_frame
from loaderwatch.detect.text import duration
from loaderwatch.detect.window import RunWindow

CODE = "hung"
QUIET_NS = 20_000_000_000
ALONE_FACTOR = 10.0  # a lone process that stands still is reported at its limit, but alerts only at this many
_TERMINAL = ("n_tty_read", "tty_read")  # input(), or a person at a prompt
_SOCKETS = ("socket.py", "ssl.py")
_SAVING = ("torch/serialization.py", "distributed/checkpoint", "safetensors")


def is_excused(item: Stuck) -> bool:
    """Whether a process is slow on purpose: it builds kernels, saves, asks a person, or simply computes."""
    frames = main_frames(stack_of(item.rank, -1, None))
    if compiling(frames) or _asks_a_person(item, frames):
        return True
    if any(mark in frame.file for frame in frames for mark in _SAVING):
        return True
    name = collective(frames)
    if name not in (None, "backward"):
        return False
    working = cpu_ratio(item.rank, item.span.pid, item.span.since_ns + int(item.age_s * 5e8))
    busy = working > (BUSY_CPU_RATIO if name else IDLE_CPU_RATIO) or item.reading
    if busy and item.rank.process.cuda:
        # Waiting for the GPU burns a CPU as well, so CPU time proves nothing; a kernel that spins does.
        spins = spins_in_collective(item.rank, item.span.since_ns) is not None
        return not spins and item.age_s < ALONE_FACTOR * item.limit_s
    return busy


def _asks_a_person(item: Stuck, frames: Sequence[Frame]) -> bool:
    """Whether the process waits in ``input()`` at a terminal.

    Newer kernels name the same function for that and for a read from a network connection.
    """
    wchan = item.span.wchan or ""
    if wchan in _TERMINAL:
        return True
    listens = any(PurePath(frame.file).name in _SOCKETS for frame in frames[:3])
    return wchan == "wait_woken" and item.rank.process.terminal and not listens


def outside(window: RunWindow, found: Sequence[Stuck]) -> list[Finding]:
    """Return a remark if every process stands still outside its loops, and a stack says where; else none.

    ``found`` are the processes that are stuck there. The remark never alerts: a script that has trained may
    serve, wait for a person, or have nothing left to do.
    """
    live = [rank for rank in window.ranks.values() if rank.process.state == "live"]
    stands = [item for item in found if _is_seen(item) and _is_quiet(item) and not is_excused(item)]
    if not stands or len(stands) < len(live):
        return []
    # One that is in no collective comes first: the others may wait for it in theirs.
    apart = [item for item in stands if collective(main_frames(stack_of(item.rank, -1, None))) is None]
    return [alone(max(apart or stands, key=lambda item: item.age_s))]


def _is_quiet(item: Stuck) -> bool:
    return stands_still(item.rank, item.span.pid, item.rank.made_ns - QUIET_NS)


def _is_seen(item: Stuck) -> bool:
    dump = stack_of(item.rank, -1, None)
    return dump is not None and dump.taken_ns > item.span.since_ns and bool(main_frames(dump))


def alone(item: Stuck) -> Finding:
    """Explain S26: a process stands still in its own code, with no loader and no partner to blame."""
    rank, dump = item.rank, stack_of(item.rank, -1, None)
    where = user_frame(main_frames(dump))
    is_outside = item.span.phase == "outside"
    phase = f'phase "{item.span.phase_name}"' if item.span.phase_name else item.span.phase
    place = "the code outside its loops" if is_outside else f"its {phase}"
    at = f" at {where}" if where else f" in {place}"
    alerts = not is_outside and item.age_s >= ALONE_FACTOR * item.limit_s
    return Finding(
        key=f"{CODE}:rank{rank.rank}",
        code=CODE,
        scenario="S26",
        severity="warning" if alerts else "info",
        confidence=0.5,
        began_ns=item.span.since_ns,
        title=f"Training has stood still{at} for {duration(item.age_s)}; the data loader is not the cause.",
        cause="The training process waits for something in its own code and uses no CPU."
        + (" It is outside its training loops: between two epochs, or after the last." if is_outside else ""),
        advice="Look at the stack: a request without a timeout, a full disk or pipe, a lock. If it is meant to take long, put it in"
        ' `with loaderwatch.phase("…")`.',
        evidence=[
            Evidence(label="no progress for", value=item.age_s, unit="s"),
            Evidence(label="limit learned for this phase", value=item.limit_s, unit="s"),
        ],
        rank=rank.rank,
        host=rank.host,
        pid=item.span.pid,
        lost_s=item.age_s,
        stacks=[dump] if dump else [],
    )
