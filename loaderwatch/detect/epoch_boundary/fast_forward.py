"""A resumed run that reads batches again and throws them away: S34, code ``fast-forward``.

The finding is a remark with an ETA. ``skip_first_batches`` and similar functions iterate the loader without
training (transformers#11284: 28 hours). The loader is fine and nothing hangs, but people think so. Meanwhile,
and while too few batches have come to decide, no rule judges the loader's speed.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import FAST_FORWARD as CODE
from loaderwatch.detect.evidence import RankEvidence, RunEvidence
from loaderwatch.detect.finding import Finding, observed
from loaderwatch.detect.measures.machine import SLOWEST
from loaderwatch.detect.measures.statistics import mean, median
from loaderwatch.detect.shared_thresholds import BUSY_CPU_RATIO
from loaderwatch.detect.window import RankWindow, seconds

EMPTY_STEP_S: Final = threshold(
    0.0003, "s", "chosen, for an idle host: a loop body that trains takes longer, if only to launch kernels"
)
IDLE_BODY_S: Final = threshold(
    12e-6, "s", "on a full host an empty body took 7 to 10 µs; the mean of eight small pictures 110 µs"
)
UNMAPPED_S: Final = threshold(
    15e-6, "s", "for an idle host; on a full host freeing a worker's batch took 50 µs"
)
SKIPPING_BODY_S: Final = threshold(
    150e-6, "s", "for a body that skips rounds and may print: on a full host a printed line took 80 µs"
)
FREED_BYTES_PER_S: Final = threshold(
    30e9, "bytes per s", "assumed, not measured: about 0.1 µs per freed page"
)
EMPTY_RATIO: Final = threshold(0.02, "ratio", "chosen: a body below this share of the newest does nothing")
FEW_SKIPPED_BATCHES: Final = threshold(
    10, "batches", "chosen; with 30 an input-bound alert came first where batches are slow"
)
TRAINING_GPU_RATIO: Final = threshold(0.1, "ratio", "chosen: a device with this utilization may be training")
LEAST_FAST_FORWARD_S: Final = threshold(2.0, "s", "chosen: a shorter fast-forward is not worth a remark")
STEPS_AHEAD: Final = threshold(
    16, "steps", "chosen: half of so many must train; a single long body only waited for a CPU"
)
ALIKE_FACTOR: Final = threshold(
    2.0, "factor", "chosen: times the most batches between two later steps; fewer batches make up one step"
)
TURNS: Final = threshold(4, "steps", "chosen: so many equal batch counts between steps are accumulation")
TURNS_RATIO: Final = threshold(0.75, "ratio", "chosen: of equal batch counts between steps; hiccups differ")


def detect(run: RunEvidence) -> list[Finding]:
    """Find each loader that is being fast-forwarded, or was a moment ago: one finding per loader."""
    findings: dict[int, Finding] = {}
    for rank in run.live_ranks:
        for loader in rank.process.loaders:
            if loader.role == "train" and loader.loader not in findings:
                finding = _finding(rank, loader)
                if finding is not None:
                    findings[loader.loader] = finding
    return list(findings.values())


def only_reads(evidence: RankEvidence, loader: LoaderInfo) -> bool:
    """Whether no batch is used, but it is no fast-forward yet: few batches came, or the body is empty."""
    rank, slowness = evidence.rows, evidence.slowness
    steps = rank.table("steps")
    rows = np.flatnonzero((steps["loader"] == loader.loader) & (steps["off_main_thread"] != 1))
    if not rows.size or not _still(rank, loader) or rank.process.trains_without_loader:
        return False
    if _trains(rank, rows, np.inf).any():
        return False
    if _body(rank) == "nothing":  # an empty body still trains if the loop iterates a generator that trains
        return _is_idle(rank, rows, EMPTY_STEP_S * slowness) and not _pass_ended(
            rank, loader, rows, rows.size
        )
    few = rows.size < FEW_SKIPPED_BATCHES and steps["batch"][rows[0]] == 0
    return few and _is_idle(rank, rows, _body_s(rank, loader) * slowness)


def _finding(evidence: RankEvidence, loader: LoaderInfo) -> Finding | None:
    rank, slowness, limits = evidence.rows, evidence.slowness, evidence.limits
    if _trained_at_once(rank, loader):
        return None
    steps = rank.table("steps")
    rows = np.flatnonzero((steps["loader"] == loader.loader) & (steps["off_main_thread"] != 1))
    if rows.size < FEW_SKIPPED_BATCHES:
        return None
    newest_s = median(seconds(steps["step_ns"][rows[-STEPS_AHEAD:]]))
    empty_s = max(EMPTY_STEP_S * slowness, EMPTY_RATIO * newest_s)
    if _first(rank, _trains(rank, rows[: FEW_SKIPPED_BATCHES + STEPS_AHEAD], empty_s)) < FEW_SKIPPED_BATCHES:
        return None  # it trained nearly from the beginning, as nearly all runs do
    trains = _trains(rank, rows, empty_s)
    first = _first(rank, trains)
    if first < ALIKE_FACTOR * _longest_between(trains[first:]):
        return None  # the loop makes each training step from so many batches
    skipped = rows[:first]
    trains_later = first < rows.size
    if not _is_idle(
        rank, skipped, max(_body_s(rank, loader) * slowness, EMPTY_RATIO * newest_s if trains_later else 0.0)
    ):
        return None
    began_ns = int(steps["request_ns"][skipped[0]])
    ended_ns = int(steps["request_ns"][rows[first]]) if first < rows.size else None
    until_ns = rank.made_ns if ended_ns is None else ended_ns
    taken_s = (until_ns - began_ns) / 1e9
    over = ended_ns is not None and (rank.made_ns - ended_ns) / 1e9 > max(
        limits.recent_s, limits.spike_recent_s
    )
    if _pass_ended(rank, loader, rows, first) or (not trains_later and _body(rank) == "nothing"):
        return None  # the loop read the data for another purpose, such as filling a cache
    if taken_s < LEAST_FAST_FORWARD_S or over or _feeds_another(rank, loader, began_ns, until_ns):
        return None
    wait_s = seconds(steps["wait_ns"][skipped])
    if float(np.nansum(wait_s)) < 0.5 * taken_s and ended_ns is None and not _still(rank, loader):
        return None
    per_s = skipped.size / taken_s
    done = int(steps["batch"][skipped[-1]]) + 1
    left_batches = loader.batches - done if loader.batches is not None and loader.batches > done else None
    eta_s = left_batches / per_s if left_batches is not None and ended_ns is None else None
    return Finding(
        key=f"{CODE}:{loader.loader}",
        loader=loader.loader,
        code=CODE,
        scenario="S34",
        severity="info",
        confidence=0.8,
        began_ns=began_ns,
        ended_ns=ended_ns,
        rule="resume-reads-again",
        params={
            "loader": loader.name,
            "over": ended_ns is not None,
            "batches": done,
            "batches_per_s": per_s,
            "eta_s": eta_s,
        },
        evidence=[
            observed("batches-thrown-away", done, "count"),
            observed("batches-per-second", per_s, "per_s"),
            observed("it-has-taken", taken_s, "s"),
            *([observed("at-most-until-the-end-of-the-epoch", eta_s, "s")] if eta_s else []),
        ],
        rank=rank.rank,
        host=rank.host,
        lost_s=taken_s,
    )


def _trained_at_once(rank: RankWindow, loader: LoaderInfo) -> bool:
    """Whether the first steps surely train; a cheap test, because nearly all ranks train at once.

    It must agree with ``_first``: all steps are this loader's, and none is much shorter than the newest.
    """
    steps = rank.table("steps")
    first, newest = slice(FEW_SKIPPED_BATCHES + STEPS_AHEAD), slice(-STEPS_AHEAD, None)
    loaders, off_main, step_ns = steps["loader"], steps["off_main_thread"], steps["step_ns"]
    if step_ns.size < FEW_SKIPPED_BATCHES + STEPS_AHEAD or not (loaders[first] == loader.loader).all():
        return False
    if (
        (off_main[first] == 1).any()
        or (off_main[newest] == 1).any()
        or not (loaders[newest] == loader.loader).all()
    ):
        return False
    if rank.process.has_optimizer:
        return bool((steps["optimizer_steps"][:FEW_SKIPPED_BATCHES] > 0).any())
    empty_s = max(EMPTY_STEP_S * SLOWEST, EMPTY_RATIO * int(step_ns[newest].max()) / 1e9)
    return int(step_ns[first].min()) / 1e9 > empty_s  # UNKNOWN is negative


def _trains(rank: RankWindow, rows: NDArray[np.intp], empty_s: float) -> NDArray[np.bool_]:
    """Return which of these steps train, shape (rows,); without optimizer those longer than ``empty_s``."""
    steps = rank.table("steps")
    if rank.process.has_optimizer:
        trains = np.asarray(steps["optimizer_steps"][rows] > 0)
        # With accumulation the optimizer steps only after many batches.
        for phase in ("forward_ns", "backward_ns"):
            trains |= steps[phase][rows] > 0
        return trains
    trains = seconds(steps["step_ns"][rows]) > empty_s
    if rank.process.has_model:
        trains |= steps["forward_ns"][rows] > 0
    return trains


def _feeds_another(rank: RankWindow, loader: LoaderInfo, began_ns: int, until_ns: int) -> bool:
    """Whether a loop over another loader, which is built from this loader's batches, trained meanwhile."""
    steps = rank.table("steps")
    meanwhile = (steps["request_ns"] >= began_ns) & (steps["request_ns"] <= until_ns)
    trains = (steps["loader"] != loader.loader) & (seconds(steps["step_ns"]) > EMPTY_STEP_S)
    return int((meanwhile & trains).sum()) >= STEPS_AHEAD


def _is_idle(rank: RankWindow, rows: NDArray[np.intp], empty_s: float) -> bool:
    """Whether these batches are unused: the median body is below ``empty_s``, and nothing else computes."""
    if median(seconds(rank.table("steps")["step_ns"][rows])) > empty_s:
        return False
    since_ns = int(rank.table("steps")["request_ns"][rows[0]])
    gpus, processes = rank.table("gpus"), rank.table("processes")
    if mean(gpus["utilization_ratio"][gpus["t_ns"] >= since_ns]) > TRAINING_GPU_RATIO:
        return False
    if rank.process.has_optimizer:
        return True
    main = (processes["worker"] < 0) & (processes["t_ns"] >= since_ns)
    return not mean(processes["cpu_ratio"][main] - processes["main_cpu_ratio"][main]) > BUSY_CPU_RATIO


def _body_s(rank: RankWindow, loader: LoaderInfo) -> float:
    """Return how many seconds a body that does not use its batch takes at most on an idle host."""
    fetches = rank.table("fetches")
    size = median(np.maximum(0, fetches["bytes"][fetches["loader"] == loader.loader]).astype(np.float64))
    body_s = SKIPPING_BODY_S if _body(rank) == "skips" else IDLE_BODY_S
    body_s += UNMAPPED_S if loader.num_workers else 0.0
    return body_s + float(np.nan_to_num(size)) / FREED_BYTES_PER_S


def _pass_ended(rank: RankWindow, loader: LoaderInfo, rows: NDArray[np.intp], first: int) -> bool:
    """Whether the pass over the first batches ended without training. A resume trains in the same pass."""
    epochs, ends = rank.table("steps")["epoch"][rows], rank.table("epoch_ends")
    if first < rows.size:
        return bool(epochs[first] != epochs[first - 1])
    return bool(((ends["loader"] == loader.loader) & (ends["epoch"] == epochs[-1])).any())


def _body(rank: RankWindow) -> str | None:
    """Return what the source says of the loop body: "skips" or "nothing"; None if neither."""
    return next((call.body for call in rank.process.calls if call.body), None)


def _first(rank: RankWindow, trains: NDArray[np.bool_]) -> int:
    """Return the index of the first step that trains; the size if none does.

    An optimizer's step always counts. Without one, nearly every step or every n-th must train after it.
    """
    training_rows = np.flatnonzero(trains)
    if rank.process.has_optimizer:
        return int(training_rows[0]) if training_rows.size else int(trains.size)
    apart = np.diff(training_rows)
    if apart.size >= TURNS:
        usual = float(np.median(apart))
        in_turn = apart == usual
        if usual > 1 and in_turn.mean() >= TURNS_RATIO:
            return int(training_rows[np.argmax(in_turn)])
    return _first_lasting(trains)


def _longest_between(trains: NDArray[np.bool_]) -> int:
    """Return the most batches between two training steps; 0 if fewer than two steps train."""
    training_rows = np.flatnonzero(trains)
    return int(np.diff(training_rows).max()) - 1 if training_rows.size > 1 else 0


def _first_lasting(trains: NDArray[np.bool_]) -> int:
    """Return the index of the first training step that others follow; the size if there is none."""
    total = np.concatenate(([0], np.cumsum(trains)))
    ends = np.minimum(np.arange(trains.size) + STEPS_AHEAD, trains.size)
    lasting = trains & (total[ends] - total[:-1] >= STEPS_AHEAD // 2)
    return int(np.argmax(lasting)) if lasting.any() else int(trains.size)


def _still(rank: RankWindow, loader: LoaderInfo) -> bool:
    """Whether the fast-forward still goes on: the process waits for this loader's next batch."""
    span = rank.span
    return span is not None and span.loader == loader.loader and span.phase == "wait"
