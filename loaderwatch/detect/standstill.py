"""A process that stands still outside any loader, with no partner to blame: slow on purpose, or S26."""

from __future__ import annotations

from loaderwatch.detect.finding import Evidence, Finding
from loaderwatch.detect.gpu_evidence import spins_in_collective
from loaderwatch.detect.phrases import duration
from loaderwatch.detect.progress import Stuck, cpu_ratio, stack_of
from loaderwatch.detect.seats import BUSY_CPU_RATIO
from loaderwatch.detect.stacktext import collective, compiling, main_frames, user_frame

CODE = "hung"
IDLE_CPU_RATIO = 0.05
ALONE_FACTOR = 10.0  # a lone process that stands still is reported at the limit, but alerts only at this many
_TERMINAL = ("n_tty_read", "tty_read")  # input(), or a person at a prompt
_SAVING = ("torch/serialization.py", "distributed/checkpoint", "safetensors")


def is_excused(item: Stuck) -> bool:
    """Slow on purpose: building kernels, saving, a person at the terminal, or simply computing."""
    frames = main_frames(stack_of(item.rank, -1, None))
    if compiling(frames) or (item.span.wchan or "") in _TERMINAL:
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


def alone(item: Stuck) -> Finding:
    """S26: a process that stands still in its own code, with no loader and no partner to blame."""
    rank, dump = item.rank, stack_of(item.rank, -1, None)
    where = user_frame(main_frames(dump))
    at = f" at {where}" if where else f" in its {item.span.phase}"
    return Finding(
        key=f"{CODE}:rank{rank.rank}",
        code=CODE,
        scenario="S26",
        severity="warning" if item.age_s >= ALONE_FACTOR * item.limit_s else "info",
        confidence=0.5,
        began_ns=item.span.since_ns,
        title=f"Training has stood still{at} for {duration(item.age_s)}; the data loader is not the cause.",
        cause="The training process waits for something in its own code and uses no CPU.",
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
