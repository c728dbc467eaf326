"""The causes of a data wait: for each thing that the loop may wait for, its rules in their order of precedence.

A rule is a pure function of the symptoms, and explains them or gives None. One wait has one cause: the first rule that fits
is told. The order is from the certain to the likely: what the machine does to us (quota, affinity), what the workers do to
each other (threads, a lock that they share), what the storage did (a change), what a fetch is made of (collector, one worker's
share, collating, amplification), the crowd on the CPUs, and the cache. The last rule of a row always fits: it is what is left.

A new cause is one function in the module of its subject, and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from loaderwatch.core.answers import Text
from loaderwatch.core.facts import AT_WORK, StackDump
from loaderwatch.detect.explanation import Explanation
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
from loaderwatch.detect.input_bound.message_names import code_line
from loaderwatch.detect.input_bound.symptoms import Bottleneck, Symptoms
from loaderwatch.detect.measures.stacks import Frame, loop_over_loader, main_frames, user_frame, usual_stack

Rule = Callable[[Symptoms], Explanation | None]

RULES: Final[Mapping[Bottleneck, tuple[Rule, ...]]] = {
    Bottleneck.OTHER_ITERABLE: (
        batch_causes.collector_of_the_loop,  # S25
        loaderless_causes.between_steps,  # S01
        storage_causes.warming_cache,  # S09
        worker_causes.other_iterable,  # S01
    ),
    Bottleneck.TRAINING_THREAD: (
        cpu_causes.quota,  # S04
        batch_causes.collector_of_the_loop,  # S25
        batch_causes.sampler,  # S15
        batch_causes.works_itself,  # S54
        storage_causes.warming_cache,  # S09
        storage_causes.fills_cache,  # S09
        worker_causes.in_memory,  # S01
        worker_causes.no_workers,  # S01
    ),
    Bottleneck.UNPACKING: (
        batch_causes.sampler_beside_workers,  # S15
        batch_causes.snapshots,  # S19
        batch_causes.unpacking,  # S13
    ),
    Bottleneck.HANDOVER: (
        cpu_causes.quota,  # S04
        cpu_causes.affinity,  # S05
        cpu_causes.threads,  # S06
        batch_causes.snapshots,  # S19
        batch_causes.pin_thread,  # S16
        cpu_causes.crowd,  # S03
        batch_causes.works_itself,  # S54
        cpu_causes.starved_training_thread,  # S14
    ),
    Bottleneck.WORKERS: (
        cpu_causes.quota,  # S04
        cpu_causes.affinity,  # S05
        cpu_causes.threads,  # S06
        lock_causes.shared_lock,  # S49; a lock that begins to be fought for slows all of them down as well
        storage_causes.slowed_down,  # S10
        answer_causes.time_limits,  # S22
        batch_causes.collector,  # S25
        worker_causes.heavy_share,  # S23
        batch_causes.collate,  # S12
        storage_causes.amplification,  # S11
        cpu_causes.crowd,  # S03; workers without a CPU use little of it, as those that read from storage do
        storage_causes.thrashing_cache,  # S09
        worker_causes.growing,  # S58; more workers, or CPUs for them, would only put it off
        storage_causes.fills_cache,  # S09; what is kept costs no CPU again
        worker_causes.in_memory,  # S01; neither more workers nor CPUs for them help
        worker_causes.no_cpu_for_more,  # S07
        storage_causes.warming_cache,  # S09; no cache gives CPU to workers that compute
        answer_causes.live_source,  # S08; N43, a remark
        worker_causes.slow_storage,  # S08
        worker_causes.too_few_workers,  # S02
    ),
    Bottleneck.SINGLE_BATCHES: (
        batch_causes.collector_pause,  # S25
        worker_causes.heavy_share,  # S23
        storage_causes.cold_first_epoch,  # S09
        lock_causes.shared_lock,  # S49; whoever is unlucky with a lock waits long for it, and no sample is to blame
        lock_causes.locked_out,  # S49
        answer_causes.time_limits,  # S22
        storage_causes.stops,  # S10; all workers at once, where a slow sample keeps one
        spike_causes.blocks,  # S33; the first sample of a block is no slow sample
        spike_causes.jitter,  # S21
        spike_causes.slow_sample,  # S20
    ),
}


def explain(symptoms: Symptoms) -> Explanation:
    """Explain why the loop waits, by the first rule that fits, with the line at which samples are read where it is known."""
    explanations = ((rule, rule(symptoms)) for rule in RULES[symptoms.bottleneck])
    rule, found = next((rule, explanation) for rule, explanation in explanations if explanation is not None)
    found = replace(found, steady=rule in RULES[Bottleneck.WORKERS])
    dump = None if found.stacks else usual_stack(_at_work(symptoms))
    if dump is None:
        return found
    line = code_line(_line(dump))
    at_work = Text("found-at-work", {"worker": dump.worker if dump.worker >= 0 else None, "line": line})
    return replace(found, also=[*found.also, at_work], stacks=[dump])


def _at_work(s: Symptoms) -> Sequence[StackDump]:
    """Return the stacks of those that read for the loop, taken while they computed and it waited; oldest first."""
    if s.bottleneck in (Bottleneck.TRAINING_THREAD, Bottleneck.UNPACKING):
        dumps = s.training_stacks(AT_WORK)
    elif s.bottleneck in (Bottleneck.WORKERS, Bottleneck.SINGLE_BATCHES):
        dumps = s.passing_stacks(AT_WORK)
    else:
        return ()
    return [dump for dump in dumps if _line(dump) is not None]


def _line(dump: StackDump) -> Frame | None:
    """Return the line of the user's at which samples are read; None where it is a library's alone, or the stack is of something else."""
    frames = main_frames(dump)
    frame = user_frame(frames)
    if dump.worker >= 0:
        return frame
    loop = loop_over_loader(frames)
    return None if loop is None or frame is loop else frame
