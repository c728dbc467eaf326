"""The rules of family ``input-bound``: the causes of a data wait, and their order for each bottleneck.

A rule is a pure function of the symptoms. It returns an explanation, or None if it does not fit. One wait has
one cause: the first rule that fits. Certain causes come before likely ones. First come limits of the machine
(quota, affinity), then workers that hinder each other (threads, a shared lock), then a change in the storage.
The parts of a fetch follow (collector, one worker's share, collating, amplification), then too many workers
for the CPUs, and the cache. The last rule always fits.

A new cause is one function in the module of its subject, and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from loaderwatch.core.answers import Text
from loaderwatch.core.facts import (
    ANSWER_WAIT,
    AT_WORK,
    BETWEEN_STEPS,
    INTERPRETER_HELD,
    LOCK_WAIT,
    StackDump,
)
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.finding import Explanation
from loaderwatch.detect.input_bound import (
    answer_causes,
    batch_causes,
    cpu_causes,
    loaderless_causes,
    lock_causes,
    spike_causes,
    storage_causes,
    worker_causes,
)
from loaderwatch.detect.input_bound.symptoms import Bottleneck, Symptoms
from loaderwatch.detect.measures.stacks import (
    Frame,
    code_line,
    loop_over_loader,
    main_frames,
    user_frame,
    usual_stack,
)
from loaderwatch.detect.rule import Rule

RULES: Final = (
    Rule("cpu-quota", "S04", cpu_causes.quota),
    Rule("workers-pinned-to-few-cpus", "S05", cpu_causes.affinity),
    Rule("job-pinned-to-few-cpus", "S05", cpu_causes.affinity),
    Rule("threads-inside-workers", "S06", cpu_causes.threads),
    Rule("shared-lock", "S49", lock_causes.shared_lock, LOCK_WAIT),
    Rule("lock-held-long", "S49", lock_causes.shared_lock, LOCK_WAIT),
    Rule("locked-out", "S49", lock_causes.locked_out, LOCK_WAIT),
    Rule("storage-slowed-down", "S10", storage_causes.slowed_down),
    Rule("answers-slowed-down", "S08", storage_causes.slowed_down, ANSWER_WAIT),
    Rule("storage-stops", "S10", storage_causes.stops, LOCK_WAIT),
    Rule("requests-time-out", "S22", answer_causes.time_limits, ANSWER_WAIT),
    Rule("garbage-collector-in-workers", "S25", batch_causes.collector),
    Rule("garbage-collector-pause", "S25", batch_causes.collector_pause),
    Rule("garbage-collector-in-loop", "S25", batch_causes.collector_of_the_loop),
    Rule("heavy-share", "S23", worker_causes.heavy_share),
    Rule("slow-collate", "S12", batch_causes.collate),
    Rule("slow-sampler", "S15", batch_causes.sampler, AT_WORK),
    Rule("slow-sampler-beside-workers", "S15", batch_causes.sampler_beside_workers, AT_WORK),
    Rule("read-amplification", "S11", storage_causes.amplification, AT_WORK),
    Rule("too-many-workers", "S03", cpu_causes.crowd),
    Rule("page-cache-too-small", "S09", storage_causes.thrashing_cache),
    Rule("fetches-keep-growing", "S58", worker_causes.growing),
    Rule("dataset-fills-cache", "S09", storage_causes.fills_cache),
    Rule("page-cache-fills", "S09", storage_causes.warming_cache),
    Rule("first-epoch-was-cold", "S09", storage_causes.cold_first_epoch),
    Rule("data-in-memory", "S01", worker_causes.in_memory),
    Rule("no-cpu-for-more-workers", "S07", worker_causes.no_cpu_for_more),
    Rule("live-source", "S08", answer_causes.live_source),
    Rule("slow-storage", "S08", worker_causes.slow_storage, ANSWER_WAIT),
    Rule("too-few-workers", "S02", worker_causes.too_few_workers, AT_WORK),
    Rule("slow-blocks", "S33", spike_causes.blocks),
    Rule("uneven-fetches", "S21", spike_causes.jitter),
    Rule("slow-sample", "S20", spike_causes.slow_sample),
    Rule("no-workers", "S01", worker_causes.no_workers, AT_WORK),
    Rule("no-dataloader", "S01", worker_causes.other_iterable),
    Rule("queue-between-steps", "S01", loaderless_causes.between_steps, BETWEEN_STEPS),
    Rule("save-between-steps", "S01", loaderless_causes.between_steps, BETWEEN_STEPS),
    Rule("answer-between-steps", "S01", loaderless_causes.between_steps, BETWEEN_STEPS),
    Rule("script-between-steps", "S01", loaderless_causes.between_steps, BETWEEN_STEPS),
    Rule("dataset-snapshots", "S19", batch_causes.snapshots),
    Rule("slow-unpacking", "S13", batch_causes.unpacking),
    Rule("slow-pinning", "S16", batch_causes.pin_thread),
    Rule("slow-reader-thread", "S54", batch_causes.works_itself),
    Rule("interpreter-held", "S14", cpu_causes.starved_training_thread, INTERPRETER_HELD),
    Rule("cpus-held-by-others", "S14", cpu_causes.starved_training_thread),
    Rule("training-thread-without-cpu", "S14", cpu_causes.starved_training_thread),
)
"""All causes of a data wait; proven causes first."""

Cause = Callable[[Symptoms], Explanation | None]

PRECEDENCE: Final[Mapping[Bottleneck, tuple[Cause, ...]]] = {
    Bottleneck.OTHER_ITERABLE: (
        batch_causes.collector_of_the_loop,
        loaderless_causes.between_steps,
        storage_causes.warming_cache,
        worker_causes.other_iterable,
    ),
    Bottleneck.TRAINING_THREAD: (
        cpu_causes.quota,
        batch_causes.collector_of_the_loop,
        batch_causes.sampler,
        batch_causes.works_itself,
        storage_causes.warming_cache,
        storage_causes.fills_cache,
        worker_causes.in_memory,
        worker_causes.no_workers,
    ),
    Bottleneck.UNPACKING: (
        batch_causes.sampler_beside_workers,
        batch_causes.snapshots,
        batch_causes.unpacking,
    ),
    Bottleneck.HANDOVER: (
        cpu_causes.quota,
        cpu_causes.affinity,
        cpu_causes.threads,
        batch_causes.snapshots,
        batch_causes.pin_thread,
        cpu_causes.crowd,
        batch_causes.works_itself,
        cpu_causes.starved_training_thread,
    ),
    Bottleneck.WORKERS: (
        cpu_causes.quota,
        cpu_causes.affinity,
        cpu_causes.threads,
        lock_causes.shared_lock,  # before slowed_down: new competition for a lock also slows all workers down
        storage_causes.slowed_down,
        answer_causes.time_limits,
        batch_causes.collector,
        worker_causes.heavy_share,
        batch_causes.collate,
        storage_causes.amplification,
        cpu_causes.crowd,  # workers without a CPU use little CPU time, just as workers that read from storage
        storage_causes.thrashing_cache,
        worker_causes.growing,  # more workers or CPUs would only delay the shortage
        storage_causes.fills_cache,  # samples that are kept cost no CPU again
        worker_causes.in_memory,  # neither more workers nor more CPUs help
        worker_causes.no_cpu_for_more,
        storage_causes.warming_cache,  # a cache gives no CPU to workers that compute
        answer_causes.live_source,  # N43, a remark
        worker_causes.slow_storage,
        worker_causes.too_few_workers,
    ),
    Bottleneck.SINGLE_BATCHES: (
        batch_causes.collector_pause,
        worker_causes.heavy_share,
        storage_causes.cold_first_epoch,
        lock_causes.shared_lock,  # a worker may wait long for a lock by chance: no sample is to blame
        lock_causes.locked_out,
        answer_causes.time_limits,
        storage_causes.stops,  # stops all workers at once; a slow sample holds up one
        spike_causes.blocks,  # the first sample of a block is not a slow sample
        spike_causes.jitter,
        spike_causes.slow_sample,
    ),
}


WAITS_FOR_STORAGE: Final[tuple[Cause, ...]] = (
    storage_causes.slowed_down,
    storage_causes.thrashing_cache,
    storage_causes.warming_cache,
    storage_causes.cold_first_epoch,
)
"""Rules that infer waits for storage from durations. Samples of busy fetches refute them."""
BUSY_RATIO: Final = threshold(0.9, "ratio", "chosen: of the samples; so little is left for waits for storage")


def explain(symptoms: Symptoms) -> Explanation:
    """Explain why the loop waits, by the first rule that fits; add the line that reads samples if known."""
    rules = PRECEDENCE[symptoms.bottleneck]
    if symptoms.sampled_busy_ratio >= BUSY_RATIO:
        rules = tuple(rule for rule in rules if rule not in WAITS_FOR_STORAGE)
    explanations = ((rule, rule(symptoms)) for rule in rules)
    rule, explanation = next((rule, cause) for rule, cause in explanations if cause is not None)
    explanation = replace(explanation, steady=rule in PRECEDENCE[Bottleneck.WORKERS])
    dump = None if explanation.stacks else usual_stack(_at_work(symptoms))
    if dump is None:
        return explanation
    line = code_line(_line(dump))
    at_work = Text("found-at-work", {"worker": dump.worker if dump.worker >= 0 else None, "line": line})
    return replace(explanation, also=[*explanation.also, at_work], stacks=[dump])


def _at_work(s: Symptoms) -> Sequence[StackDump]:
    """Return the stacks of readers that computed while the loop waited for them; oldest first."""
    if s.bottleneck in (Bottleneck.TRAINING_THREAD, Bottleneck.UNPACKING):
        dumps = s.training_stacks(AT_WORK)
    elif s.bottleneck in (Bottleneck.WORKERS, Bottleneck.SINGLE_BATCHES):
        dumps = s.passing_stacks(AT_WORK)
    else:
        return ()
    return [dump for dump in dumps if _line(dump) is not None]


def _line(dump: StackDump) -> Frame | None:
    """Return the user's line that reads samples; None if only a library reads or the stack shows no read."""
    frames = main_frames(dump)
    frame = user_frame(frames)
    if dump.worker >= 0:
        return frame
    loop = loop_over_loader(frames)
    return None if loop is None or frame is loop else frame
