"""Causes that lie in a fetch beside reading (S12, S25), before it (S15), and in taking the batch (S13, S16, S19, S54).

S15 is the sampler, S12 is collating, S25 the garbage collector, S13 unpacking, S16 the thread that pins memory, S19 snapshots of
the dataset's state, S54 a thread that reads ahead and works on each batch itself. Where a dataset holds millions of Python
objects, a full collection in a worker walks all of them; with fork it also copies the pages they lie in, because it writes to every object (pytorch#13246).
The collector's own clock (``gc.callbacks``) proves it.
"""

from __future__ import annotations

import math

from loaderwatch.core.answers import Evidence
from loaderwatch.core.facts import AT_WORK
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.finding import known_evidence
from loaderwatch.detect.input_bound.cpu_causes import neighbours
from loaderwatch.detect.input_bound.symptoms import Symptoms
from loaderwatch.detect.limits import COLLECTOR_PART
from loaderwatch.detect.measures.stacks import chooses_samples, main_frames, user_frame
from loaderwatch.detect.measures.statistics import mean, ratio, total
from loaderwatch.detect.text import count, duration, percent, rate

COLLATE_RATIO = 0.5  # of a fetch: joining the samples costs more than reading all of them
COLLATE_FLOOR_S = 0.005  # seconds of a batch on an idle host
SAMPLER_RATIO = 0.5  # of a wait, in which the training thread neither reads nor joins samples
STATEFUL = "StatefulDataLoader"
PIN_CPU_RATIO = (
    0.05  # of a core; the thread also waits for the workers to hand over memory (measured: 0.1 to 0.5)
)
RARE_SNAPSHOTS = 50  # steps between snapshots, from which on they are too rare to slow every batch
READING_RATIO = 0.5  # of the time between two batches; a thread that reads for less has mostly other work
CHOOSE_AT_ONCE = (
    "Choose the samples of many batches at once, or of the next epoch in a thread. Workers do not help: a sampler runs in the"
    " training process whatever their number."
)
COLLECTOR_ADVICE = (
    "In worker_init_fn call gc.collect() and gc.freeze(), so that what the dataset holds is not walked again, or gc.disable()"
    " where samples leave no reference cycles; take gc.collect() out of __getitem__ and collate_fn; hold metadata in NumPy or"
    " Arrow instead of lists and dictionaries. More workers do not help."
)


def collate(s: Symptoms) -> Explanation | None:
    """Explain S12: most of a fetch is joining the samples, not reading them; None otherwise."""
    fetches, workers = s.pace.fetches, s.workers
    fetch_s, collate_s = mean(fetches.fetch_s[s.lately]), mean(fetches.collate_s[s.lately])
    share = ratio(total(fetches.collate_s[s.lately]), total(fetches.fetch_s[s.lately]))
    if not (share >= COLLATE_RATIO and collate_s >= COLLATE_FLOOR_S * s.reader_slowness):
        return None
    many = f" {rate(s.samples)} samples" if math.isfinite(s.samples) else " the samples"
    after_s = max(s.step_s, (fetch_s - collate_s) / workers)
    return Explanation(
        scenario="S12",
        confidence=0.9,
        because=f"collate_fn takes {duration(collate_s)} of the {duration(fetch_s)} that a worker needs for a batch",
        cause=f"Reading{many} takes {duration(fetch_s - collate_s)}, joining them in collate_fn {duration(collate_s)}"
        f" ({percent(share)} of a fetch). It runs in the {count(workers, 'worker')}, so nothing of it shows in the training"
        " process.",
        advice="Make collate_fn cheap: allocate the batch once and copy into it (torch.stack of equal shapes), no Python loop over"
        " elements, pad to a few bucketed lengths, tokenize ahead of time or a whole batch at once (__getitems__). More workers"
        f" only spread the cost, and a larger batch makes it worse.{neighbours(s.cpus)}",
        gain_ceiling_ratio=s.gain(after_s),
        evidence=known_evidence(
            ("collate time of a batch", collate_s, "s"),
            ("share of a fetch spent in collate_fn", share, "ratio"),
            ("reading time of a batch", fetch_s - collate_s, "s"),
        ),
    )


def collector(s: Symptoms) -> Explanation | None:
    """Explain S25: most of what the workers do is collecting garbage; None otherwise."""
    fetches = s.pace.fetches
    share = ratio(total(s.pace.collected_s[s.lately]), total(fetches.fetch_s[s.lately]))
    if not share >= COLLECTOR_PART:
        return None
    fetch_s = mean(fetches.fetch_s[s.lately])
    each_s = fetch_s * share
    after_s = max(s.step_s, (fetch_s - each_s) / s.workers)
    return Explanation(
        scenario="S25",
        confidence=0.95,
        because=f"Python's garbage collector takes {duration(each_s)} of the {duration(fetch_s)} that a worker needs for a batch",
        cause=f"{percent(share)} of what the {count(s.workers, 'worker')} do is collecting garbage: a full collection walks every"
        " container the worker holds, the dataset's metadata included.",
        advice=COLLECTOR_ADVICE,
        gain_ceiling_ratio=s.gain(after_s),
        evidence=[
            Evidence(label="collector's time in a fetch", value=each_s, unit="s"),
            Evidence(label="share of a fetch spent in the collector", value=share, unit="ratio"),
        ],
    )


def sampler(s: Symptoms) -> Explanation | None:
    """Explain S15: choosing the samples of each batch takes longer than reading them, on the training thread; None otherwise.

    Workers would change nothing: a sampler runs in the training process whatever their number.
    """
    read_s = mean(s.pace.fetches.fetch_s[s.lately])
    over = slice(None, -1 if s.pace.open_wait else None)  # what is read in an open wait is not known yet
    wait_s = mean(s.pace.wait_s[over])
    choosing_s = wait_s - read_s
    if s.loader.reader or not (wait_s > 0 and choosing_s >= SAMPLER_RATIO * wait_s):
        return None
    return Explanation(
        scenario="S15",
        confidence=0.96,  # above that of no workers, as which it is told while nothing was fetched yet
        because=f"the sampler takes {duration(choosing_s)} to choose the samples of a batch, reading them {duration(read_s)}",
        cause=f"{percent(choosing_s / wait_s)} of the wait is neither reading nor joining samples: the sampler computes before it gives the"
        " next indices.",
        advice=CHOOSE_AT_ONCE,
        gain_ceiling_ratio=s.gain(max(s.step_s, s.iteration_s - choosing_s)),
        evidence=[
            Evidence(label="choosing the samples of a batch", value=choosing_s, unit="s"),
            Evidence(label="reading and joining them", value=read_s, unit="s"),
        ],
    )


def sampler_beside_workers(s: Symptoms) -> Explanation | None:
    """Explain S15 where workers read: as next() takes a batch it asks for the indices of a later one, and stacks show it there."""
    dumps = s.training_stacks(AT_WORK)
    choosing = [dump for dump in dumps if chooses_samples(main_frames(dump))]
    if not choosing or len(choosing) < SAMPLER_RATIO * len(dumps):
        return None
    return Explanation(
        scenario="S15",
        confidence=0.9,
        because=f"batches lie ready, but the sampler takes the training thread {duration(s.wait_s)} to choose the samples of another",
        cause=f"Workers are ahead ({rate(s.ready)} batches ready on average), yet each next() takes {duration(s.wait_s)}, of it"
        f" {percent(s.wait_cpu_ratio)} CPU time of the training thread: it also asks the sampler for the indices of a later batch, and"
        " that computes.",
        advice=CHOOSE_AT_ONCE,
        gain_ceiling_ratio=s.gain(s.step_s),
    )


def collector_of_the_loop(s: Symptoms) -> Explanation | None:
    """Explain S25: where the training process makes its batches itself, most of the wait is collecting garbage; None otherwise."""
    pace = s.pace
    collected_s = total(pace.wait_collected_s)
    share = ratio(collected_s, pace.lost_s)
    if not share >= COLLECTOR_PART:
        return None
    each_s = ratio(collected_s, pace.wait_s.size)
    dump = s.between_steps
    frame = user_frame(main_frames(dump))
    return Explanation(
        scenario="S25",
        confidence=0.95,
        because=f"Python's garbage collector takes {duration(each_s)} of the {duration(s.wait_s)} in which the model waits for its next"
        f" batch{f', lately at {frame}' if frame else ''}",
        cause=f"{percent(share)} of that time is a full collection, which walks every container that the process holds, a replay buffer of"
        " Python objects included.",
        advice="Take gc.collect() out of the loop, or call gc.freeze() once after setup and gc.collect(1) every few hundred steps. Hold what"
        " grows in arrays or tensors.",
        gain_ceiling_ratio=s.gain(max(s.step_s, s.iteration_s - each_s)),
        evidence=[
            Evidence(label="collector's time in a wait", value=each_s, unit="s"),
            Evidence(label="share of the waits spent in the collector", value=share, unit="ratio"),
        ],
        stacks=[] if dump is None else [dump],
    )


def collector_pause(s: Symptoms) -> Explanation | None:
    """Explain S25: most of the fetch behind the longest wait was garbage collection; None otherwise."""
    worst = s.longest
    fetch_s = worst.fetch_s or worst.wait_s
    if not worst.collected_s >= COLLECTOR_PART * fetch_s:
        return None
    who = f"worker {worst.worker}" if worst.worker is not None else "a worker"
    return Explanation(
        scenario="S25",
        confidence=0.9,
        because=f"Python's garbage collector stopped {who} for {duration(worst.collected_s)} in the middle of a batch",
        cause=f"The longest wait was for {who}, which took {duration(fetch_s)} for its batch, {duration(worst.collected_s)} of it in the"
        " garbage collector: a full collection walks every container the worker holds, the dataset's metadata included. No"
        " sample is to blame.",
        advice=COLLECTOR_ADVICE,
        gain_ceiling_ratio=s.gain(s.without_spikes_s),
        worker=worst.worker,
        evidence=[
            Evidence(label="longest pause of the collector in a fetch", value=worst.collected_s, unit="s"),
            Evidence(label="that fetch", value=fetch_s, unit="s"),
        ],
    )


def snapshots(s: Symptoms) -> Explanation | None:
    """Explain S19: batches carry the dataset's state (StatefulDataLoader, torchdata#1317); None otherwise."""
    if STATEFUL not in s.loader.class_name:
        return None
    every = s.loader.snapshot_every_n_steps
    if every is not None and every >= RARE_SNAPSHOTS:
        return None
    how_often = "with every batch" if every in (None, 1) else f"every {every} batches"
    steps = (
        f"snapshot_every_n_steps {every}" if every is not None else "snapshot_every_n_steps (1 unless set)"
    )
    return Explanation(
        scenario="S19",
        confidence=0.9,
        because=f"its {STATEFUL} ships the dataset's state {how_often}, and unpacking takes the training thread"
        f" {duration(s.wait_s)} per batch",
        cause=f"A worker pickles the state of dataset and sampler {how_often} ({steps}) and the training thread unpacks it:"
        f" batches lie ready, yet each next() takes {duration(s.wait_s)}, of it {percent(s.wait_cpu_ratio)} CPU time.",
        advice=f"Set {steps.split(' (')[0]} → the number of steps between checkpoints: state_dict() is only needed there. Keep"
        " shuffle buffers and caches out of the dataset's state_dict(). More workers or more prefetch will not help.",
        gain_ceiling_ratio=s.gain(s.step_s),
    )


def unpacking(s: Symptoms) -> Explanation:
    """Explain S13: batches lie ready, and the training thread works to unpickle them."""
    return Explanation(
        scenario="S13",
        confidence=0.85,
        because=f"batches lie ready, but unpacking one takes the training thread {duration(s.wait_s)}",
        cause=f"Workers are ahead ({rate(s.ready)} batches ready on average), yet each next() takes {duration(s.wait_s)}"
        f" of which {percent(s.wait_cpu_ratio)} is CPU time of the training thread: it unpickles the batch. Many small tensors, strings,"
        " NumPy arrays or Python objects in a batch do this.",
        advice="Return a few large torch tensors per batch: stack in collate_fn, turn NumPy arrays into tensors with"
        " torch.from_numpy, encode strings as uint8 tensors, leave metadata out. More workers or more prefetch will not help.",
        gain_ceiling_ratio=s.gain(s.step_s),
    )


def pin_thread(s: Symptoms) -> Explanation | None:
    """Explain S16: workers are ahead, the training thread is idle, and the thread that pins memory works.

    None otherwise. Where other threads compute more than that one, they hold the interpreter's lock and keep
    it from working, too. Where PyTorch sees no accelerator there is no such thread: pin_memory=True does
    nothing then.
    """
    machine = s.machine
    if not (s.loader.pin_memory and machine.pin_cpu_ratio >= max(PIN_CPU_RATIO, machine.other_cpu_ratio)):
        return None
    return Explanation(
        scenario="S16",
        confidence=0.9,
        because=f"{rate(s.ready)} batches lie ready, but the thread that pins their memory passes one on only every"
        f" {duration(s.iteration_s)}",
        cause=f"Workers are ahead ({rate(s.ready)} batches ready on average) and next() uses hardly any CPU, yet takes"
        f" {duration(s.wait_s)}: the one thread that unpacks batches and copies them into page-locked memory cannot"
        f" keep up. It uses {percent(machine.pin_cpu_ratio)} of a CPU.",
        advice="Return fewer and larger tensors per batch (one flat tensor is pinned in one call), give the batch its own"
        " pin_memory(), send uint8 instead of float32, and leave pin_memory off for validation. More workers will not help.",
        gain_ceiling_ratio=s.gain(s.step_s),
        evidence=known_evidence(
            ("CPU use of the thread that pins memory", machine.pin_cpu_ratio, "ratio"),
        ),
    )


def works_itself(s: Symptoms) -> Explanation | None:
    """Explain S54: the loader is ahead of the thread that reads it, which works on each batch itself; None otherwise."""
    reader = s.loader.reader
    if reader is None or (not s.pace.workers and not s.mean_fetch_s < READING_RATIO * s.iteration_s):
        return None
    ready = (
        f"{rate(s.ready)} batches lie ready on average when it asks for one"
        if s.pace.workers
        else f"a batch is read in {duration(s.mean_fetch_s)}"
    )
    return Explanation(
        scenario="S54",
        confidence=0.8,
        because=f"the thread that reads {s.loader.name} ahead ({reader}) hands a batch on only every {duration(s.iteration_s)}",
        cause=f"The loop waits {duration(s.wait_s)} for a batch of the thread {reader}, although {ready}: what takes the time is what"
        f" the thread does with each batch before it hands it on. A step takes {duration(s.step_s)}.",
        advice=f"Move what {reader} does with a batch into the dataset or collate_fn, so that DataLoader workers do it side by side,"
        " or let several threads do it. A faster loader, more workers or a deeper queue do not help.",
        gain_ceiling_ratio=s.gain(s.step_s),
    )
