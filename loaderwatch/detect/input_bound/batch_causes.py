"""What a fetch is made of beside reading, and handing the batch over: S12 collating, S16 pin thread, S19 snapshots, S25 collector.

Where a dataset holds millions of Python objects, a full collection in a worker walks all of them; with fork it also copies
the pages they lie in, because it writes to every object (pytorch#13246). Its own clock (``gc.callbacks``) proves it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.finding import Evidence, known_evidence
from loaderwatch.detect.measures.gain import gain_ratio
from loaderwatch.detect.measures.machine import Machine
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.statistics import Floats, mean, ratio, total
from loaderwatch.detect.text import count, duration, percent, rate
from loaderwatch.detect.window import seconds

COLLATE_RATIO = 0.5  # of a fetch: joining the samples costs more than reading all of them
COLLATE_FLOOR_S = 0.005
STATEFUL = "StatefulDataLoader"
PIN_CPU_RATIO = (
    0.05  # of a core; it waits as well, for the workers to hand over memory (measured: 0.1 to 0.5)
)
RARE_SNAPSHOTS = 50  # steps between snapshots beyond which they are not what each batch carries
COLLECTOR_PART = 0.5  # of the time in question
COLLECTOR_ADVICE = (
    "In worker_init_fn call gc.collect() and gc.freeze(), so that what the dataset holds is not walked again, or gc.disable()"
    " where samples leave no reference cycles; take gc.collect() out of __getitem__ and collate_fn; hold metadata in NumPy or"
    " Arrow instead of lists and dictionaries. More workers do not help."
)


def collate_cause(pace: Pace) -> Explanation | None:
    """S12: most of a fetch is joining the samples, not reading them."""
    mask = pace.fetches.ended_ns >= pace.request_ns[0]
    fetch_s, collate_s = mean(pace.fetches.fetch_s[mask]), mean(pace.fetches.collate_s[mask])
    share = ratio(total(pace.fetches.collate_s[mask]), total(pace.fetches.fetch_s[mask]))
    if not (pace.workers and share >= COLLATE_RATIO and collate_s >= COLLATE_FLOOR_S):
        return None
    workers = pace.workers
    samples = mean(np.where(pace.fetches.samples > 0, pace.fetches.samples, np.nan).astype(np.float64))
    many = f" {rate(samples)} samples" if math.isfinite(samples) else " the samples"
    after_s = max(pace.mean_step_s, (fetch_s - collate_s) / workers)
    return Explanation(
        scenario="S12",
        confidence=0.9,
        because=f"collate_fn takes {duration(collate_s)} of the {duration(fetch_s)} that a worker needs for a batch",
        cause=f"Reading{many} takes {duration(fetch_s - collate_s)}, joining them in collate_fn {duration(collate_s)}"
        f" ({percent(share)} of a fetch). It runs in the {count(workers, 'worker')}, so nothing of it shows in the training"
        " process.",
        advice="Make collate_fn cheap: allocate the batch once and copy into it (torch.stack of equal shapes), no Python loop over"
        " elements, pad to a few bucketed lengths, tokenize ahead of time or a whole batch at once (__getitems__). More workers"
        " only spread the cost, and a larger batch makes it worse.",
        gain_ceiling_ratio=gain_ratio(pace.iteration_s, after_s),
        evidence=known_evidence(
            ("collate time of a batch", collate_s, "s"),
            ("share of a fetch spent in collate_fn", share, "ratio"),
            ("reading time of a batch", fetch_s - collate_s, "s"),
        ),
    )


def snapshot_cause(pace: Pace, delivery: Explanation) -> Explanation | None:
    """S19: a StatefulDataLoader sends the dataset's state along with the batches (torchdata#1317)."""
    if STATEFUL not in pace.loader.class_name:
        return None
    every = pace.loader.snapshot_every_n_steps
    if every is not None and every >= RARE_SNAPSHOTS:
        return None
    wait_s = mean(pace.wait_s)
    how_often = "with every batch" if every in (None, 1) else f"every {every} batches"
    steps = (
        f"snapshot_every_n_steps {every}" if every is not None else "snapshot_every_n_steps (1 unless set)"
    )
    return replace(
        delivery,
        scenario="S19",
        confidence=0.9,
        because=f"its {STATEFUL} ships the dataset's state {how_often}, and unpacking takes the training thread"
        f" {duration(wait_s)} per batch",
        cause=f"A worker pickles the state of dataset and sampler {how_often} ({steps}) and the training thread unpacks it:"
        f" batches lie ready, yet each next() takes {duration(wait_s)}, of it {percent(_wait_cpu(pace))} CPU time.",
        advice=f"Set {steps.split(' (')[0]} → the number of steps between checkpoints: state_dict() is only needed there. Keep"
        " shuffle buffers and caches out of the dataset's state_dict(). More workers or more prefetch will not help.",
    )


def pin_cause(pace: Pace, machine: Machine) -> Explanation | None:
    """S16: workers are ahead, the training thread has nothing to do, and the thread between them is the one that works.

    Where other threads compute more than it does, they hold the interpreter's lock and keep this one from it, too. There is
    none where PyTorch sees no accelerator: pin_memory=True does nothing then.
    """
    if not (pace.loader.pin_memory and machine.pin_cpu_ratio >= max(PIN_CPU_RATIO, machine.other_cpu_ratio)):
        return None
    wait_s = mean(pace.wait_s)
    ready = mean(np.where(pace.ready >= 0, pace.ready, np.nan).astype(np.float64))
    after_s = pace.mean_step_s
    return Explanation(
        scenario="S16",
        confidence=0.9,
        because=f"{rate(ready)} batches lie ready, but the thread that pins their memory passes one on only every"
        f" {duration(pace.iteration_s)}",
        cause=f"Workers are ahead ({rate(ready)} batches ready on average) and next() uses hardly any CPU, yet takes"
        f" {duration(wait_s)}: the one thread that unpacks batches and copies them into page-locked memory cannot"
        f" keep up. It uses {percent(machine.pin_cpu_ratio)} of a CPU.",
        advice="Return fewer and larger tensors per batch (one flat tensor is pinned in one call), give the batch its own"
        " pin_memory(), send uint8 instead of float32, and leave pin_memory off for validation. More workers will not help.",
        gain_ceiling_ratio=gain_ratio(pace.iteration_s, after_s),
        evidence=known_evidence(
            ("CPU use of the thread that pins memory", machine.pin_cpu_ratio, "ratio"),
        ),
    )


def _wait_cpu(pace: Pace) -> float:
    known = np.isfinite(pace.wait_cpu_s) & np.isfinite(pace.wait_s)
    return ratio(float(pace.wait_cpu_s[known].sum()), float(pace.wait_s[known].sum()))


def collector_times(pace: Pace) -> Floats:
    """Seconds of each fetch during which the garbage collector held its worker."""
    table, fetches = pace.rank.table("collections"), pace.fetches
    result = np.zeros(fetches.fetch_s.size)
    for worker in np.unique(fetches.worker[fetches.worker >= 0]):
        rows = np.flatnonzero(fetches.worker == worker)
        own = table["worker"] == worker
        began_ns, took_s = table["request_ns"][own], np.nan_to_num(seconds(table["duration_ns"][own]))
        at = np.searchsorted(fetches.began_ns[rows], began_ns, side="right") - 1
        inside = (at >= 0) & (began_ns < fetches.ended_ns[rows][np.maximum(at, 0)])
        np.add.at(result, rows[at[inside]], took_s[inside])
    return result


def collector_cause(pace: Pace) -> Explanation | None:
    """Most of what the workers do is collecting garbage."""
    lately = pace.fetches.ended_ns >= pace.request_ns[0]
    collected_s, fetched_s = total(collector_times(pace)[lately]), total(pace.fetches.fetch_s[lately])
    share = ratio(collected_s, fetched_s)
    if not (pace.workers and share >= COLLECTOR_PART):
        return None
    fetch_s = mean(pace.fetches.fetch_s[lately])
    each_s = fetch_s * share
    after_s = max(pace.mean_step_s, (fetch_s - each_s) / pace.workers)
    return Explanation(
        scenario="S25",
        confidence=0.95,
        because=f"Python's garbage collector takes {duration(each_s)} of the {duration(fetch_s)} that a worker needs for a batch",
        cause=f"{percent(share)} of what the {count(pace.workers, 'worker')} do is collecting garbage: a full collection walks every"
        " container the worker holds, the dataset's metadata included.",
        advice=COLLECTOR_ADVICE,
        gain_ceiling_ratio=gain_ratio(pace.iteration_s, after_s),
        evidence=[
            Evidence(label="collector's time in a fetch", value=each_s, unit="s"),
            Evidence(label="share of a fetch spent in the collector", value=share, unit="ratio"),
        ],
    )


def collector_spike_cause(
    worker: int | None, fetch_s: float, collected_s: float, gain: float | None
) -> Explanation | None:
    """The long fetch that the loop waited for was the collector's."""
    if not collected_s >= COLLECTOR_PART * fetch_s:
        return None
    who = f"worker {worker}" if worker is not None else "a worker"
    return Explanation(
        scenario="S25",
        confidence=0.9,
        because=f"Python's garbage collector stopped {who} for {duration(collected_s)} in the middle of a batch",
        cause=f"The longest wait was for {who}, which took {duration(fetch_s)} for its batch, {duration(collected_s)} of it in the"
        " garbage collector: a full collection walks every container the worker holds, the dataset's metadata included. No"
        " sample is to blame.",
        advice=COLLECTOR_ADVICE,
        gain_ceiling_ratio=gain,
        worker=worker,
        evidence=[
            Evidence(label="longest pause of the collector in a fetch", value=collected_s, unit="s"),
            Evidence(label="that fetch", value=fetch_s, unit="s"),
        ],
    )
