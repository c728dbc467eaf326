"""Why a loader keeps its loop waiting in the steady state: S01, S02, S07, S08, S13, S14.

Three numbers taken in the training process separate them: the wait, the training thread's CPU time inside it, and how
many batches lay ready when the wait began. Workers too slow: nothing ready, no CPU. Delivery too slow: batches
ready, CPU busy. The rest is arithmetic on fetch time, step time and CPUs.
"""

from __future__ import annotations

import math

import numpy as np

from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.measures.gain import gain_ratio, iteration_with, workers_needed
from loaderwatch.detect.measures.machine import Cpus
from loaderwatch.detect.measures.pace import Pace, fetch_summary
from loaderwatch.detect.measures.statistics import comb_period, mean, ratio
from loaderwatch.detect.text import count, cpu_count, duration, percent, rate

DELIVERY_CPU_RATIO = (
    0.06  # measured: unpickling is a seventh (busy machine) to half CPU, waiting for workers below 3 %
)
UNPACK_RATIO = 0.05  # of an iteration without waiting; unpacking that costs less is not the trouble
UNPACK_S = 0.002
READY_RATIO = 0.5
LATENCY_CPU_RATIO = 0.3  # a worker that computes less than this while fetching waits for storage or network
RUNNABLE_RATIO = 0.5  # workers found runnable this often are computing, however little CPU they get
NEIGHBOURS_RATIO = 0.5  # of the CPUs that this run may use, in the hands of other programs
WORTH_RATIO = 0.1  # of the time: a change that gives less at most is not advised for its own sake
CHEAPER = (
    "Make reading a sample cheaper: resize and decode the dataset once ahead of time, decode with a faster library,"
    " do augmentation on the GPU, cache decoded samples."
)
MOST_PER_CORE = 4  # workers per core beyond which even sleeping workers are not the cure


def capacity_short(pace: Pace) -> bool | None:
    """Whether the workers are too slow even at their median fetch time; None when fetch times are not known."""
    typical_s, _, _ = fetch_summary(pace.fetches)
    step_s = pace.mean_step_s
    if not pace.workers or not (math.isfinite(typical_s) and math.isfinite(step_s)):
        return None
    return typical_s / pace.workers > 1.05 * step_s


def wait_cpu_ratio(pace: Pace) -> float:
    """Training-thread CPU time per second of wait."""
    known = np.isfinite(pace.wait_cpu_s) & np.isfinite(pace.wait_s)
    return ratio(float(pace.wait_cpu_s[known].sum()), float(pace.wait_s[known].sum()))


def ready_wait_ratio(pace: Pace) -> float:
    """Share of the wait that was spent although some batch lay ready at entry; of a wait that goes on it is not known."""
    seen = (pace.ready >= 0) | (pace.cached >= 0)
    return ratio(float(np.nansum(pace.wait_s[pace.anything_ready])), float(np.nansum(pace.wait_s[seen])))


def hands_over(pace: Pace) -> bool:
    """Whether the training thread works to take batches that lie ready: nothing that quicker workers would change.

    The CPU time of unpacking must be worth a word by itself; on a busy machine a short one takes long as well.
    """
    unpack_s = mean(pace.wait_cpu_s)
    return (
        ready_wait_ratio(pace) >= READY_RATIO
        and wait_cpu_ratio(pace) >= DELIVERY_CPU_RATIO
        and unpack_s >= max(UNPACK_S, UNPACK_RATIO * (pace.mean_step_s + unpack_s))
    )


def steady_cause(pace: Pace, cpus: Cpus) -> Explanation:
    """The likeliest cause of a wait that recurs at every step or every few steps."""
    if not pace.workers:
        return _in_process(pace, cpus)
    short = capacity_short(pace)
    if not short and hands_over(pace):
        return _delivery(pace)
    if short is False and ready_wait_ratio(pace) >= READY_RATIO and not _nearly_short(pace):
        return _thread_starved(pace, cpus)
    return _workers_too_slow(pace, cpus)


def _nearly_short(pace: Pace) -> bool:
    _, mean_s, _ = fetch_summary(pace.fetches)
    return bool(mean_s / (pace.workers or 1) > 0.8 * pace.mean_step_s)


def warming_cause(pace: Pace) -> Explanation:
    """S09: the first epoch reads from cold storage and gets faster as it goes."""
    size = pace.wait_s.size // 3
    early_s, late_s = mean(pace.wait_s[:size]), mean(pace.wait_s[-size:])
    return Explanation(
        scenario="S09",
        confidence=0.5,
        because=f"waits are getting shorter ({duration(early_s)} → {duration(late_s)}), as in a first epoch on cold storage",
        cause="This is the first epoch, and reading gets faster as it goes on: the page cache fills. If the dataset fits into"
        " memory, the next epoch will be fast.",
        advice="Wait for the second epoch. If that one waits as long, the dataset does not fit into memory: stage it on a local disk"
        " or pack it into shards that are read in sequence.",
    )


def _in_process(pace: Pace, cpus: Cpus) -> Explanation:
    wait_s, step_s = mean(pace.wait_s), pace.mean_step_s
    if pace.workers is None:
        return Explanation(
            scenario="S01",
            confidence=0.5,
            because=f"{pace.loader.name} gives {rate(1 / pace.iteration_s)} batches/s, the model could take {rate(1 / step_s)}",
            cause=f"{pace.loader.name} ({pace.loader.class_name}) takes {duration(wait_s)} to give a batch, and the training"
            f" loop stands still meanwhile. A step takes {duration(step_s)}.",
            advice="Prepare batches ahead of time: in DataLoader workers, or in a background thread that fills a queue.",
            gain_ceiling_ratio=gain_ratio(pace.iteration_s, max(step_s, 0.0)),
        )
    waits_only = pace.fetches.cpu_ratio < LATENCY_CPU_RATIO
    most = (
        int(MOST_PER_CORE * cpus.per_rank)
        if waits_only and math.isfinite(cpus.per_rank)
        else _cap(cpus, 1.0, 0)
    )
    workers = max(1, min(workers_needed(wait_s, step_s), most))
    overlapped_s, least_s = iteration_with(wait_s, workers, step_s), cpus.least_s(pace.iteration_s)
    after_s = max(overlapped_s, least_s)
    shared = f" for {count(cpus.ranks, 'rank')}" if cpus.ranks > 1 else ""
    room = f" ({cpu_count(cpus.usable, 'usable CPU')}{shared})" if math.isfinite(cpus.usable) else ""
    busy = f"keep {rate(cpus.ours)} of {cpu_count(cpus.usable, 'usable CPU')} busy already"
    if least_s <= overlapped_s:
        advice = (
            f"Set num_workers={workers}{room} and persistent_workers=True: batches are then read while the model computes, about"
            f" {rate(1 / after_s)} steps/s instead of {rate(1 / pace.iteration_s)}."
        )
    elif least_s <= (1 - WORTH_RATIO) * pace.iteration_s:
        advice = (
            f"Set num_workers={workers} and persistent_workers=True for {rate(1 / after_s)} steps/s at most instead of"
            f" {rate(1 / pace.iteration_s)}, as training and reading {busy}. Threads that get in each other's way make it less. To go"
            f" beyond that: {CHEAPER[0].lower()}{CHEAPER[1:]}"
        )
    else:
        advice = f"{CHEAPER} Workers alone will hardly help, as training and reading {busy}."
        after_s = step_s
    return Explanation(
        scenario="S01",
        confidence=0.95,
        because=f"num_workers=0 reads every batch on the training thread, {duration(wait_s)} each",
        cause=f"With num_workers=0 the training thread itself reads and joins each batch ({duration(wait_s)}), then computes"
        f" ({duration(step_s)}). Nothing overlaps.",
        advice=advice
        + (
            " If workers were switched off because of a CUDA fork error, return CPU tensors from the dataset instead."
            if pace.rank.process.cuda
            else ""
        ),
        gain_ceiling_ratio=gain_ratio(pace.iteration_s, after_s),
    )


def _delivery(pace: Pace) -> Explanation:
    wait_s = mean(pace.wait_s)
    cpu = wait_cpu_ratio(pace)
    return Explanation(
        scenario="S13",
        confidence=0.85,
        because=f"batches lie ready, but unpacking one takes the training thread {duration(wait_s)}",
        cause=f"Workers are ahead ({rate(_mean_ready(pace))} batches ready on average), yet each next() takes {duration(wait_s)}"
        f" of which {percent(cpu)} is CPU time of the training thread: it unpickles the batch. Many small tensors, strings,"
        " NumPy arrays or Python objects in a batch do this.",
        advice="Return a few large torch tensors per batch: stack in collate_fn, turn NumPy arrays into tensors with"
        " torch.from_numpy, encode strings as uint8 tensors, leave metadata out. More workers or more prefetch will not help.",
        gain_ceiling_ratio=gain_ratio(pace.iteration_s, pace.mean_step_s),
    )


def _thread_starved(pace: Pace, cpus: Cpus) -> Explanation:
    wait_s = mean(pace.wait_s)
    neighbours = _neighbours(cpus)
    why = "other programs hold the CPUs" if neighbours else "the training thread gets no CPU to take them"
    return Explanation(
        scenario="S14",
        confidence=0.5,
        because=f"batches lie ready, but {why} ({duration(wait_s)} per batch)",
        cause=f"{rate(_mean_ready(pace))} batches lie ready on average and unpacking needs little CPU, yet next() takes"
        f" {duration(wait_s)}: other threads of this process, or other processes, keep the training thread from running."
        f"{neighbours}",
        advice="Look for busy Python threads in the training process (loggers, progress bars, in-process prefetchers) and for"
        " other programs on these cores. More workers would make it worse.",
        gain_ceiling_ratio=gain_ratio(pace.iteration_s, pace.mean_step_s),
    )


def _neighbours(cpus: Cpus) -> str:
    """Who else is at work, if they take much of what this run may use: no change to the loader brings that back."""
    if not min(cpus.others, cpus.usable - cpus.ours) >= NEIGHBOURS_RATIO * cpus.usable:
        return ""
    return f" Other programs on this host keep {cpu_count(cpus.others)} busy: move them away first."


def _mean_ready(pace: Pace) -> float:
    known = pace.ready >= 0
    return float(pace.ready[known].mean()) if known.any() else math.nan


def _cap(cpus: Cpus, each: float, now: int) -> int:
    """How many workers the CPUs carry: those that run now, plus what fits into the free ones."""
    if not math.isfinite(cpus.free):
        return max(now, 4)
    most = max(1, int(MOST_PER_CORE * cpus.per_rank))
    return max(1, now, min(most, now + int(cpus.free / cpus.ranks / max(each, 0.1) + 0.5)))


def _workers_too_slow(pace: Pace, cpus: Cpus) -> Explanation:
    workers = pace.workers or 1
    step_s = pace.mean_step_s
    typical_s, fetch_s, _ = fetch_summary(pace.fetches)
    # The mean, as the slow ones count; the median where quick ones have come since that nobody waited for.
    fetch_s = max(typical_s, fetch_s) if math.isfinite(fetch_s) else workers * pace.iteration_s
    each = cpus.worker_ratio if math.isfinite(cpus.worker_ratio) else pace.fetches.cpu_ratio
    computing = pace.fetches.cpu_ratio if math.isfinite(pace.fetches.cpu_ratio) else each
    if cpus.runnable_ratio >= RUNNABLE_RATIO:
        computing = max(computing, cpus.runnable_ratio)
    needed = max(workers + 1, workers_needed(fetch_s, step_s))
    because = (
        f"{count(workers, 'worker')} {'delivers' if workers == 1 else 'deliver'} {rate(1 / pace.iteration_s)} batches/s,"
        f" the model could take {rate(1 / step_s)}"
    )
    period = comb_period(pace.wait_s, workers)
    comb = (
        f" A long wait comes every {period} batches, because the workers finish together." if period else ""
    )
    cores = cpus.per_rank if math.isfinite(cpus.per_rank) else 4.0
    facts = f"A worker needs {duration(fetch_s)} for a batch and the model {duration(step_s)} for a step"
    if computing < LATENCY_CPU_RATIO:
        if workers >= max(4, cores) or needed > max(16, 4 * cores):
            return _latency_bound(pace, fetch_s, computing, because, facts + "." + comb)
        target = needed
    else:
        known = [ratio for ratio in (computing, each) if math.isfinite(ratio)]
        target = min(needed, _cap(cpus, max(known, default=1.0), workers))
        full = cpus.free < 0.5 if math.isfinite(cpus.free) else workers >= cores
        if full or target <= workers:
            return _cpu_bound(pace, cpus, fetch_s, computing, because, facts + "." + comb)
    after_s = max(iteration_with(fetch_s, target, step_s), cpus.least_s(pace.iteration_s))
    verdict = (
        f", so {count(workers, 'worker')} cannot keep up"
        if fetch_s / workers > step_s
        else f": {count(workers, 'worker')} keep{'s' if workers == 1 else ''} up on average, but with nothing to spare for"
        " a batch that takes longer"
    )
    room = (
        f" {rate(cpus.free)} of {rate(cpus.usable)} usable CPUs are free"
        if math.isfinite(cpus.free) and computing >= LATENCY_CPU_RATIO
        else f" The workers use only {percent(computing)} of a CPU each while they read, so more of them fit"
        if math.isfinite(computing)
        else " The CPUs are not known to be busy"
    )
    return Explanation(
        scenario="S02",
        confidence=0.9 if math.isfinite(computing) and (period or workers == 1) else 0.75,
        because=because,
        cause=f"{facts}{verdict}.{comb}",
        advice=f"Raise num_workers {workers} → {target}: each fetch takes {duration(fetch_s)} and a step {duration(step_s)}."
        f"{room}. prefetch_factor does not raise throughput.",
        gain_ceiling_ratio=gain_ratio(pace.iteration_s, after_s),
    )


def _cpu_bound(
    pace: Pace, cpus: Cpus, fetch_s: float, computing: float, because: str, facts: str
) -> Explanation:
    on_cpu = min(computing, pace.fetches.cpu_ratio) if math.isfinite(pace.fetches.cpu_ratio) else computing
    samples = mean(np.where(pace.fetches.samples > 0, pace.fetches.samples, np.nan).astype(np.float64))
    cpu_per_sample = fetch_s * on_cpu / samples if samples > 0 else math.nan
    most = cpus.per_rank / cpu_per_sample if cpu_per_sample > 0 else math.nan
    limit = (
        f" Reading costs {duration(cpu_per_sample)} of CPU per sample, so at most {rate(most)} samples/s"
        f"{' of each rank' if cpus.ranks > 1 else ''} fit on {cpu_count(cpus.usable)}, whatever num_workers is."
        if math.isfinite(most)
        else ""
    )
    return Explanation(
        scenario="S07",
        confidence=0.85 if math.isfinite(cpus.free) else 0.6,
        because=f"{because}, and no CPU is free for more workers",
        cause=f"{facts} The workers compute, or wait for a CPU, {percent(min(1.0, computing))} of the time they read, and the"
        f" usable CPUs are taken.{_neighbours(cpus)}{limit}",
        advice=f"{CHEAPER} More workers on this machine will not help.",
        gain_ceiling_ratio=gain_ratio(pace.iteration_s, pace.mean_step_s),
    )


def _latency_bound(pace: Pace, fetch_s: float, computing: float, because: str, facts: str) -> Explanation:
    workers = pace.workers or 1
    return Explanation(
        scenario="S08",
        confidence=0.8,
        because=f"{because}, and the workers only wait for storage or network",
        cause=f"{facts} The workers compute only {percent(computing)} of the time they read: they wait for storage or"
        " network, one sample after the other.",
        advice="Read larger pieces: pack samples into shards (WebDataset, LMDB, MDS), copy the data to a local disk, or read"
        f" several samples at once inside a worker (__getitems__ with a thread pool). More workers than CPUs also helps here:"
        f" try num_workers={min(4 * workers, workers_needed(fetch_s, pace.mean_step_s))}.",
        gain_ceiling_ratio=gain_ratio(pace.iteration_s, pace.mean_step_s),
    )
