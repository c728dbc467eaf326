"""Causes in a fetch besides reading (S12, S25), before it (S15) and after it (S13, S16, S19, S54).

S12 is collating, S13 unpacking, S15 the sampler, S16 the thread that pins memory, and S19 snapshots of the
dataset's state. S25 is the garbage collector, and S54 a thread that reads ahead and works on each batch
itself. If a dataset holds millions of Python objects, a full collection in a worker walks all of them. It
writes to every object, so after a fork it also copies the pages that hold them (pytorch#13246). The
collector's own clock (``gc.callbacks``) proves it.
"""

from __future__ import annotations

from typing import Final

from loaderwatch.core.facts import AT_WORK
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.finding import Explanation, known_evidence, observed
from loaderwatch.detect.input_bound.cpu_causes import held_by_others
from loaderwatch.detect.input_bound.symptoms import Symptoms
from loaderwatch.detect.measures.stacks import chooses_samples, code_line, main_frames, user_frame
from loaderwatch.detect.measures.statistics import mean, ratio, total
from loaderwatch.detect.shared_thresholds import COLLECTOR_PART

COLLATE_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of a fetch; then joining the samples costs more than reading all of them"
)
COLLATE_FLOOR_S: Final = threshold(
    0.005, "s", "chosen: per batch on an idle host; faster joining does no harm"
)
SAMPLER_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of a wait without reading or joining, or of the stacks that show the sampler"
)
STATEFUL = "StatefulDataLoader"
PIN_CPU_RATIO: Final = threshold(
    0.05, "ratio", "of a core; measured: 0.1 to 0.5, as the thread also waits for memory from workers"
)
RARE_SNAPSHOT_STEPS: Final = threshold(
    50, "steps", "chosen: snapshots so far apart are too rare to slow every batch"
)
READING_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the time between two batches; a thread that reads less has mostly other work"
)


def collate(s: Symptoms) -> Explanation | None:
    """Explain S12: most of a fetch is joining the samples, not reading them; None otherwise."""
    fetches, workers = s.pace.fetches, s.workers
    fetch_s, collate_s = mean(fetches.fetch_s[s.lately]), mean(fetches.collate_s[s.lately])
    share = ratio(total(fetches.collate_s[s.lately]), total(fetches.fetch_s[s.lately]))
    if not (share >= COLLATE_RATIO and collate_s >= COLLATE_FLOOR_S * s.reader_slowness):
        return None
    after_s = max(s.step_s, (fetch_s - collate_s) / workers)
    return Explanation(
        scenario="S12",
        confidence=0.9,
        rule="slow-collate",
        params={
            "collate_s": collate_s,
            "fetch_s": fetch_s,
            "read_s": fetch_s - collate_s,
            "collate_ratio": share,
            "samples": s.samples,
            "workers": workers,
            "others_cpus": held_by_others(s.cpus),
        },
        gain_ceiling_ratio=s.gain(after_s),
        evidence=known_evidence(
            ("collate-time-of-a-batch", collate_s, "s"),
            ("share-of-a-fetch-spent-in-collate-fn", share, "ratio"),
            ("reading-time-of-a-batch", fetch_s - collate_s, "s"),
        ),
    )


def collector(s: Symptoms) -> Explanation | None:
    """Explain S25: the workers spend most of a fetch collecting garbage; None otherwise."""
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
        rule="garbage-collector-in-workers",
        params={
            "collected_s": each_s,
            "fetch_s": fetch_s,
            "collected_ratio": share,
            "workers": s.workers,
        },
        gain_ceiling_ratio=s.gain(after_s),
        evidence=[
            observed("collectors-time-in-a-fetch", each_s, "s"),
            observed("share-of-a-fetch-spent-in-the-collector", share, "ratio"),
        ],
    )


def sampler(s: Symptoms) -> Explanation | None:
    """Explain S15 without workers: choosing the samples takes most of the wait; None otherwise.

    Workers would not help: the sampler always runs in the training process.
    """
    read_s = mean(s.pace.fetches.fetch_s[s.lately])
    over = slice(None, -1 if s.pace.open_wait else None)  # fetches of an open wait are not known yet
    wait_s = mean(s.pace.wait_s[over])
    choosing_s = wait_s - read_s
    if s.loader.reader or not (wait_s > 0 and choosing_s >= SAMPLER_RATIO * wait_s):
        return None
    return Explanation(
        scenario="S15",
        confidence=0.96,  # more than "no workers" has, the finding before the first fetch is known
        rule="slow-sampler",
        params={"choosing_s": choosing_s, "choosing_ratio": choosing_s / wait_s, "read_s": read_s},
        gain_ceiling_ratio=s.gain(max(s.step_s, s.iteration_s - choosing_s)),
        evidence=[
            observed("choosing-the-samples-of-a-batch", choosing_s, "s"),
            observed("reading-and-joining-them", read_s, "s"),
        ],
    )


def sampler_beside_workers(s: Symptoms) -> Explanation | None:
    """Explain S15 with workers: stacks show next() choosing the samples of a later batch; None otherwise."""
    dumps = s.training_stacks(AT_WORK)
    choosing = [dump for dump in dumps if chooses_samples(main_frames(dump))]
    if not choosing or len(choosing) < SAMPLER_RATIO * len(dumps):
        return None
    return Explanation(
        scenario="S15",
        confidence=0.9,
        rule="slow-sampler-beside-workers",
        params={"wait_s": s.wait_s, "ready": s.ready, "cpu_ratio": s.wait_cpu_ratio},
        gain_ceiling_ratio=s.gain(s.step_s),
    )


def collector_of_the_loop(s: Symptoms) -> Explanation | None:
    """Explain S25 without workers: most of the wait is garbage collection; None otherwise."""
    pace = s.pace
    collected_s = total(pace.wait_collected_s)
    share = ratio(collected_s, pace.lost_s)
    if not share >= COLLECTOR_PART:
        return None
    each_s = ratio(collected_s, pace.wait_s.size)
    dump = s.between_steps
    return Explanation(
        scenario="S25",
        confidence=0.95,
        rule="garbage-collector-in-loop",
        params={
            "collected_s": each_s,
            "wait_s": s.wait_s,
            "collected_ratio": share,
            "line": code_line(user_frame(main_frames(dump))),
        },
        gain_ceiling_ratio=s.gain(max(s.step_s, s.iteration_s - each_s)),
        evidence=[
            observed("collectors-time-in-a-wait", each_s, "s"),
            observed("share-of-the-waits-spent-in-the-collector", share, "ratio"),
        ],
        stacks=[] if dump is None else [dump],
    )


def collector_pause(s: Symptoms) -> Explanation | None:
    """Explain S25: most of the fetch behind the longest wait was garbage collection; None otherwise."""
    worst = s.longest
    fetch_s = worst.fetch_s or worst.wait_s
    if not worst.collected_s >= COLLECTOR_PART * fetch_s:
        return None
    return Explanation(
        scenario="S25",
        confidence=0.9,
        rule="garbage-collector-pause",
        params={"worker": worst.worker, "collected_s": worst.collected_s, "fetch_s": fetch_s},
        gain_ceiling_ratio=s.gain(s.without_spikes_s),
        worker=worst.worker,
        evidence=[
            observed("longest-pause-of-the-collector-in-a-fetch", worst.collected_s, "s"),
            observed("that-fetch", fetch_s, "s"),
        ],
    )


def snapshots(s: Symptoms) -> Explanation | None:
    """Explain S19: batches carry the dataset's state (StatefulDataLoader, torchdata#1317); None otherwise."""
    if STATEFUL not in s.loader.class_name:
        return None
    every = s.loader.snapshot_every_n_steps
    if every is not None and every >= RARE_SNAPSHOT_STEPS:
        return None
    return Explanation(
        scenario="S19",
        confidence=0.9,
        rule="dataset-snapshots",
        params={
            "loader": STATEFUL,
            "every": every,
            "often": every in (None, 1),
            "wait_s": s.wait_s,
            "cpu_ratio": s.wait_cpu_ratio,
        },
        gain_ceiling_ratio=s.gain(s.step_s),
    )


def unpacking(s: Symptoms) -> Explanation:
    """Explain S13: batches are ready, and the training thread is busy unpickling them."""
    return Explanation(
        scenario="S13",
        confidence=0.85,
        rule="slow-unpacking",
        params={"wait_s": s.wait_s, "ready": s.ready, "cpu_ratio": s.wait_cpu_ratio},
        gain_ceiling_ratio=s.gain(s.step_s),
    )


def pin_thread(s: Symptoms) -> Explanation | None:
    """Explain S16: the workers are ahead, the training thread is idle, and the thread that pins memory works.

    None otherwise, also if other threads compute more: they hold the interpreter's lock and so keep that
    thread from working. Without an accelerator, pin_memory=True does nothing, and that thread does not exist.
    """
    machine = s.machine
    if not (s.loader.pin_memory and machine.pin_cpu_ratio >= max(PIN_CPU_RATIO, machine.other_cpu_ratio)):
        return None
    return Explanation(
        scenario="S16",
        confidence=0.9,
        rule="slow-pinning",
        params={
            "ready": s.ready,
            "iteration_s": s.iteration_s,
            "wait_s": s.wait_s,
            "cpu_ratio": machine.pin_cpu_ratio,
        },
        gain_ceiling_ratio=s.gain(s.step_s),
        evidence=known_evidence(
            ("cpu-use-of-the-thread-that-pins-memory", machine.pin_cpu_ratio, "ratio"),
        ),
    )


def works_itself(s: Symptoms) -> Explanation | None:
    """Explain S54: the loader is ahead, but its reader thread works on each batch; None otherwise."""
    reader = s.loader.reader
    if reader is None or (not s.pace.workers and not s.mean_fetch_s < READING_RATIO * s.iteration_s):
        return None
    return Explanation(
        scenario="S54",
        confidence=0.8,
        rule="slow-reader-thread",
        params={
            "loader": s.loader.name,
            "reader": reader,
            "has_workers": bool(s.pace.workers),
            "ready": s.ready,
            "fetch_s": s.mean_fetch_s,
            "iteration_s": s.iteration_s,
            "wait_s": s.wait_s,
            "step_s": s.step_s,
        },
        gain_ceiling_ratio=s.gain(s.step_s),
    )
