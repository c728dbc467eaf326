"""Causes that lie in workers which are missing or too slow: S01, S02, S07, S08, S23 and S58.

S01 is no workers at all, S02 too few of them, S07 no CPU for more, S08 slow storage, S23 one worker with a
heavy share, S58 fetches that take longer and longer.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from loaderwatch.core.answers import Evidence
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.finding import known_evidence
from loaderwatch.detect.input_bound.cpu_causes import neighbours
from loaderwatch.detect.input_bound.lock_causes import looks_ratio
from loaderwatch.detect.input_bound.symptoms import Symptoms
from loaderwatch.detect.limits import LATENCY_CPU_RATIO
from loaderwatch.detect.measures.gain import iteration_with, workers_needed
from loaderwatch.detect.measures.machine import Cpus
from loaderwatch.detect.measures.slices import FEW_ROWS, parts
from loaderwatch.detect.measures.statistics import median, ratio, trend
from loaderwatch.detect.streams import split_first
from loaderwatch.detect.text import count, cpu_count, duration, listing, percent, rate, rate_of

WORTH_RATIO = 0.1  # of the time: a change that gains less than this at best is not advised for its own sake
GAINS_RATIO = 0.02  # of the time: what gains less is the same speed, once it is rounded
CHEAPER = (
    "Make reading a sample cheaper: resize and decode the dataset once ahead of time, decode with a faster library,"
    " do augmentation on the GPU, cache decoded samples."
)
MOST_PER_CORE = 4  # workers per core beyond which even sleeping workers are not the cure
FREE_CPUS = 0.5  # with less of a CPU free, there is none for one more worker
MANY_WORKERS = 4  # so many that wait for storage are no mistake of the loader
ASLEEP_RATIO = 0.5  # of the looks at workers, which find them asleep for a set time
MOST_NEEDED = 16  # workers: with more of them, the storage's latency is the trouble
MAPPED_FAULTS_PER_S = 20.0  # of one worker; those for loading code and libraries are over in a second
GROWN_RATIO = 1.5
"""Times its first value that a fetch takes in the end, at least, so that its growth is the cause; where the workers kept up at first."""
GROWN_ALONE_RATIO = 2.0
"""The same where they never did: its growth is the larger part of what a fetch takes."""
RISES = 0.9
"""Rank correlation of a fetch's time with its place in time. A jump between two levels that hardly vary has as much, so the middle must
lie between the ends as well: by ``BETWEEN_RATIO`` at least."""
BETWEEN_RATIO = 1.1
HEAVIER = 3.0  # times the lightest worker's usual batch
LEAST_BATCHES = 4  # of each worker, before its usual batch is known


def other_iterable(s: Symptoms) -> Explanation:
    """Explain S01: what is iterated is no DataLoader, and makes its batches while the loop stands still."""
    return Explanation(
        scenario="S01",
        confidence=0.5,
        because=f"{s.loader.name} gives {rate(1 / s.iteration_s)} batches/s, the model could take {rate_of(s.step_s)}",
        cause=f"{s.loader.name} ({s.loader.class_name}) takes {duration(s.wait_s)} to give a batch, and the training"
        f" loop stands still meanwhile. A step takes {duration(s.step_s)}.",
        advice="Prepare batches ahead of time: in DataLoader workers"
        + (
            " or in several threads."
            if s.loader.reader
            else ", or in a background thread that fills a queue."
        ),
        gain_ceiling_ratio=s.gain(max(s.step_s, 0.0)),
    )


def in_memory(s: Symptoms) -> Explanation | None:
    """Explain S01: the samples lie in memory, and the loader takes them one by one; None otherwise.

    Workers would only copy from process to process what the training process has already.
    """
    if s.loader.reader or s.loader.iterable_dataset or not s.in_memory:
        return None
    each_s = ratio(s.batch_cpu_s, s.samples)
    without = " Then num_workers=0 is enough." if s.pace.workers else ""
    return Explanation(
        scenario="S01",
        confidence=0.9,
        mild=True,
        because=f"the data lies in memory, and the samples of a batch are taken one by one ({duration(s.batch_s)})",
        cause=f"A sample costs {duration(each_s)} of CPU time, and nothing is read from storage. The time goes into handling each sample:"
        f" {rate(s.samples)} of them are indexed and joined for every batch.",
        advice="Take a whole batch at once: index the tensors with a permutation (data[order[i:i + batch_size]]), give the dataset"
        f" __getitems__(indices), or use a BatchSampler as sampler with batch_size=None.{without} More processes would only copy the data.",
        gain_ceiling_ratio=s.gain(s.step_s),
        evidence=known_evidence(("CPU time of a sample", each_s, "s")),
    )


def no_workers(s: Symptoms) -> Explanation:
    """Explain S01: the training thread, or one that reads ahead for it, reads every batch itself (num_workers=0)."""
    cpus, reader = s.cpus, s.loader.reader
    read_s = s.iteration_s if reader else s.wait_s
    who = f"the thread {reader}" if reader else "the training thread"
    # Who is ready to read and gets no CPU does not wait for storage.
    delayed = 0.0 if reader or not math.isfinite(s.machine.main_delay_ratio) else s.machine.main_delay_ratio
    sleeping = s.fetch_cpu_ratio + delayed < LATENCY_CPU_RATIO and math.isfinite(cpus.per_rank)
    most = int(MOST_PER_CORE * cpus.per_rank) if sleeping else _most_workers(cpus, 1.0, 0)
    workers = max(1, min(workers_needed(read_s, s.step_s), most))
    overlapped_s, least_s = iteration_with(read_s, workers, s.step_s), cpus.least_s(s.iteration_s)
    after_s = max(overlapped_s, least_s)
    shared = f" for {count(cpus.ranks, 'rank')}" if cpus.ranks > 1 else ""
    room = f" ({cpu_count(cpus.usable, 'usable CPU')}{shared})" if math.isfinite(cpus.usable) else ""
    busy = f"keep {rate(cpus.ours)} of {cpu_count(cpus.usable, 'usable CPU')} busy already"
    if after_s > (1 - GAINS_RATIO) * s.iteration_s and workers == 1:
        advice = f"{CHEAPER} No CPU is free for more than one worker{room}, which would read no quicker than {who} does."
        after_s = s.step_s
    elif least_s <= overlapped_s:
        advice = (
            f"Set num_workers={workers}{room} and persistent_workers=True: batches are then read while the model computes, about"
            f" {rate(1 / after_s)} steps/s instead of {rate(1 / s.iteration_s)}."
        )
    elif least_s <= (1 - WORTH_RATIO) * s.iteration_s:
        advice = (
            f"Set num_workers={workers} and persistent_workers=True for {rate(1 / after_s)} steps/s at most instead of"
            f" {rate(1 / s.iteration_s)}, as training and reading {busy}. Threads that get in each other's way make it less. To go"
            f" beyond that: {CHEAPER[0].lower()}{CHEAPER[1:]}"
        )
    else:
        advice = f"{CHEAPER} Workers alone will hardly help, as training and reading {busy}."
        after_s = s.step_s
    return Explanation(
        scenario="S01",
        confidence=0.95,
        because=f"num_workers=0 reads every batch {'in' if reader else 'on'} {who}, {duration(read_s)} each",
        cause=f"With num_workers=0 {who} reads and joins every batch one after the other ({duration(read_s)} each), and a step"
        f" takes {duration(s.step_s)}."
        if reader
        else f"With num_workers=0 the training thread itself reads and joins each batch ({duration(s.wait_s)}), then computes"
        f" ({duration(s.step_s)}). Nothing overlaps.",
        advice=advice
        + ("" if sleeping else neighbours(cpus))
        + (
            " If workers were switched off because of a CUDA fork error, return CPU tensors from the dataset instead."
            if s.pace.rank.process.cuda
            else ""
        )
        + split_first(s.loader),
        gain_ceiling_ratio=s.gain(after_s),
    )


def heavy_share(s: Symptoms) -> Explanation | None:
    """Explain S23: one worker's share of a stream is always heavier, others could keep up; None otherwise.

    Batches of an iterable dataset are delivered in turn, worker after worker. The worker that has the heavy
    files, the long documents or the larger shards sets the pace of all: every so many batches the loop waits
    for it, and what the others have read ahead lies ready. Neither prefetching nor more workers help, since
    the share stays where it is.
    """
    workers = s.workers
    if not s.loader.iterable_dataset or workers < 2:
        return None
    usual = {}
    for worker in range(workers):
        took = s.pace.fetches.fetch_s[s.pace.fetches.worker == worker]
        if took.size < LEAST_BATCHES:
            return None
        usual[worker] = median(took)
    turn_s = workers * s.step_s  # from one of its batches to its next
    least_s = min(usual.values())
    heavy = [worker for worker, took_s in usual.items() if took_s > max(turn_s, HEAVIER * least_s)]
    light_s = max((took_s for worker, took_s in usual.items() if worker not in heavy), default=0.0)
    if not heavy or 2 * len(heavy) > workers or light_s > turn_s:
        return None
    heavy_s = max(usual[worker] for worker in heavy)
    even_s = iteration_with(sum(usual.values()) / workers, workers, s.step_s)
    one = len(heavy) == 1
    who = f"worker {heavy[0]}" if one else f"workers {listing([str(worker) for worker in heavy], limit=8)}"
    return Explanation(
        scenario="S23",
        confidence=0.85,
        because=f"{who} {'needs' if one else 'need'} {duration(heavy_s)} for a batch of {'its' if one else 'their'} share,"
        f" the others at most {duration(light_s)}",
        cause=f"{s.loader.name} reads an iterable dataset, and each worker has a share of its own. Batches are delivered in"
        f" turn, so {who} {'sets' if one else 'set'} the pace of all {workers}: a batch every {duration(turn_s)} would be quick"
        f" enough. What the others have read ahead lies ready meanwhile.",
        advice=f"Spread the heavy samples: more and smaller shards than workers, dealt out at random, or resampled; or make what"
        f" {who} {'reads' if one else 'read'} cheaper. A larger prefetch_factor or more workers do not help: the share stays"
        " where it is.",
        gain_ceiling_ratio=s.gain(even_s),
        worker=heavy[0] if one else None,
        evidence=[
            Evidence(label="usual fetch of the heavy share", value=heavy_s, unit="s"),
            Evidence(label="usual fetch of the other workers, at most", value=light_s, unit="s"),
            Evidence(label="time between two batches of a worker", value=turn_s, unit="s"),
        ],
    )


class GrownFetch(NamedTuple):
    """A fetch whose time, in seconds, has risen all along."""

    of_cpu: bool  # the CPU time
    first_s: float
    last_s: float
    span_s: float
    kept_up: bool  # the workers did, at first


def growing(s: Symptoms) -> Explanation | None:
    """Explain S58: a fetch takes longer and longer; None otherwise.

    More workers would only put it off.
    """
    grown = _growth(s)
    if grown is None:
        return None
    first_s, last_s = grown.first_s, grown.last_s
    kept_up = f" Before, {count(s.workers, 'worker')} kept up." if grown.kept_up else ""
    return Explanation(
        scenario="S58",
        confidence=0.95,  # above that of too few workers, which it is told as before its growth is seen
        because=f"{_because(s)}, and a fetch takes longer and longer",
        cause=f"{_facts(s)}. The {'CPU time' if grown.of_cpu else 'time'} of a fetch has risen steadily, from {duration(first_s)} to"
        f" {duration(last_s)} in {duration(grown.span_s)}.{kept_up}",
        advice="Look for what grows in the dataset with each sample (a list that is searched, a file that is read from its beginning, a"
        " cache or a connection that degrades), or for storage and CPUs that others use more and more. More workers only put it off.",
        gain_ceiling_ratio=s.gain(max(s.step_s, s.fetch_s * first_s / last_s / s.workers)),
        evidence=known_evidence(
            ("CPU time of a fetch" if grown.of_cpu else "fetch of a batch", last_s, "s"),
            ("CPU time of a fetch before" if grown.of_cpu else "fetch of a batch before", first_s, "s"),
            ("seen for", grown.span_s, "s"),
        ),
    )


def _growth(s: Symptoms) -> GrownFetch | None:
    """Return how the time of a fetch has risen all along, by the clock or by its CPU time; None where neither has.

    What grows with each sample grows ever more slowly in time once the loop waits, so no straight line is asked for. Where
    others use the CPUs as well, the clock goes up and down with them, and only the CPU time shows the growth.
    """
    course = s.pace.rank.courses.get(s.loader.loader)
    for slices in parts(course) if course is not None else ():
        clocks = (slices.fetch_s,) if s.waits_for_storage else (slices.fetch_s, slices.fetch_cpu_s)
        few = max(FEW_ROWS, slices.fetch_s.size // 16)  # at each end
        half = (slices.fetch_s.size - few) // 2
        kept_up = median(slices.fetch_s[:few]) / s.workers <= s.step_s
        for times_s in clocks:
            first_s, middle_s, last_s = (
                median(times_s[at : at + few]) for at in (0, half, times_s.size - few)
            )
            grown = 0 < first_s <= last_s / (GROWN_RATIO if kept_up else GROWN_ALONE_RATIO)
            between = BETWEEN_RATIO * first_s <= middle_s <= last_s / BETWEEN_RATIO
            if grown and between and trend(times_s) >= RISES:
                span_s = float(slices.t_ns[-1] - slices.t_ns[0]) / 1e9
                return GrownFetch(times_s is slices.fetch_cpu_s, first_s, last_s, span_s, kept_up)
    return None


def no_cpu_for_more(s: Symptoms) -> Explanation | None:
    """Explain S07: the workers compute, and no CPU is free for more of them; None otherwise."""
    cpus, computing = s.cpus, s.computing_ratio
    full = cpus.free < FREE_CPUS if math.isfinite(cpus.free) else s.workers >= s.cores
    if s.waits_for_storage or s.mostly_awaits or not (full or _target(s) <= s.workers):
        return None
    on_cpu = min(computing, s.fetch_cpu_ratio) if math.isfinite(s.fetch_cpu_ratio) else computing
    cpu_per_sample = s.fetch_s * on_cpu / s.samples if s.samples > 0 else math.nan
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
        because=f"{_because(s)}, and no CPU is free for more workers",
        cause=f"{_facts(s)}.{_comb(s)} The workers compute, or wait for a CPU, {percent(min(1.0, computing))} of the time they read, and the"
        f" usable CPUs are taken.{neighbours(cpus)}{limit}",
        advice=f"{CHEAPER} More workers on this machine will not help.",
        gain_ceiling_ratio=s.gain(s.step_s),
    )


def slow_storage(s: Symptoms) -> Explanation | None:
    """Explain S08: all that the workers do is wait for their reads; None otherwise.

    There must be many workers already, or far too many must be needed.
    """
    enough = s.workers >= max(MANY_WORKERS, s.cores) or s.workers_needed > max(MOST_NEEDED, 4 * s.cores)
    if not (s.waits_for_storage and enough):
        return None
    machine = s.machine
    mapped = machine.worker_faults_per_s >= MAPPED_FAULTS_PER_S
    return Explanation(
        scenario="S08",
        confidence=0.8,
        because=f"{_because(s)}, and the workers only wait for storage or network",
        cause=f"{_facts(s)}.{_comb(s)} The workers compute only {percent(s.computing_ratio)} of the time they read: they wait for storage or"
        " network, one sample after the other."
        + (
            f" {rate(machine.worker_faults_per_s)} times a second a worker waits for a page of a memory-mapped file (or of"
            " swapped-out memory): such reads are small and come one after the other."
            if mapped
            else ""
        ),
        advice="Read larger pieces: pack samples into shards (WebDataset, LMDB, MDS), copy the data to a local disk, or read"
        " several samples at once inside a worker (__getitems__ with a thread pool). More workers than CPUs also helps here:"
        f" try num_workers={min(4 * s.workers, workers_needed(s.fetch_s, s.step_s))}."
        + (
            " From a memory-mapped file (np.memmap, LMDB, Arrow) read whole samples ahead with madvise(MADV_WILLNEED), or read"
            " them with read() instead."
            if mapped
            else ""
        )
        + _more(s),
        gain_ceiling_ratio=s.gain(s.step_s),
        evidence=known_evidence(
            ("read from storage per second", machine.read_bytes_per_s, "bytes"),
            ("waits of a worker (voluntary switches)", machine.worker_waits_per_s, "per_s"),
            ("page faults of a worker that wait for storage", machine.worker_faults_per_s, "per_s"),
            ("I/O pressure", machine.psi_io_ratio, "ratio"),
        ),
    )


def too_few_workers(s: Symptoms) -> Explanation:
    """Explain S02: more workers would keep up, and there is room for them."""
    workers, cpus, computing = s.workers, s.cpus, s.computing_ratio
    target = _target(s)
    after_s = max(iteration_with(s.fetch_s, target, s.step_s), cpus.least_s(s.iteration_s))
    verdict = (
        f", so {count(workers, 'worker')} cannot keep up"
        if s.fetch_s / workers > s.step_s
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
        confidence=0.9 if math.isfinite(computing) and (s.comb_period or workers == 1) else 0.75,
        because=_because(s),
        cause=f"{_facts(s)}{verdict}.{_comb(s)}",
        advice=f"Raise num_workers {workers} → {target}: each fetch takes {duration(s.fetch_s)} and a step {duration(s.step_s)}."
        f"{room}. prefetch_factor does not raise throughput.{_more(s)}",
        gain_ceiling_ratio=s.gain(after_s),
    )


def _target(s: Symptoms) -> int:
    """Return how many workers to have: those that keep up, and if they compute, no more than fit the CPUs."""
    if s.waits_for_storage or s.mostly_awaits:
        return s.workers_needed
    known = [ratio for ratio in (s.computing_ratio, s.worker_cpu_ratio) if math.isfinite(ratio)]
    return min(s.workers_needed, _most_workers(s.cpus, max(known, default=1.0), s.workers))


def _most_workers(cpus: Cpus, each: float, now: int) -> int:
    """Return how many workers the CPUs carry: the ``now`` that run, plus as many as fit into the free CPUs.

    ``each`` is what one worker takes, in cores.
    """
    if not math.isfinite(cpus.free):
        return max(now, 4)
    most = max(1, int(MOST_PER_CORE * cpus.per_rank))
    return max(1, now, min(most, now + int(cpus.free / cpus.ranks / max(each, 0.1) + 0.5)))


def _because(s: Symptoms) -> str:
    verb = "delivers" if s.workers == 1 else "deliver"
    return (
        f"{count(s.workers, 'worker')} {verb} {rate(1 / s.iteration_s)} batches/s,"
        f" the model could take {rate_of(s.step_s)}"
    )


def _facts(s: Symptoms) -> str:
    return f"A worker needs {duration(s.fetch_s)} for a batch and the model {duration(s.step_s)} for a step"


def _more(s: Symptoms) -> str:
    """Return what to know before there are more workers: how a stream is split, and that they may sleep for what more cannot help."""
    asleep = looks_ratio(s, "timer_wait")
    if not (s.waits_for_storage and asleep >= ASLEEP_RATIO):
        return split_first(s.loader)
    caution = (
        f" But {percent(asleep)} of the time a worker sleeps for a set time, rather than in a read: if it tries for a lock or keeps to a limit of"
        " requests, more workers wait in the same queue. `loaderwatch tune` counts what each number of workers delivers."
    )
    return split_first(s.loader) + caution


def _comb(s: Symptoms) -> str:
    if not s.comb_period:
        return ""
    return f" A long wait comes every {s.comb_period} batches, because the workers finish together."
