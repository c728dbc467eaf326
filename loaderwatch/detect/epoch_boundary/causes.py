"""Which part of an epoch boundary costs the time, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.records import EndedBy, IterKind
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.measures.boundaries import Boundary
from loaderwatch.detect.measures.statistics import mean
from loaderwatch.detect.text import count, duration

JOIN_TIMEOUT_S = 5.0  # DataLoader joins each worker this long, one after the other (pytorch#39570)
FEW_BATCHES = 2
MANY_REBUILDS = 5
USED_PART = 0.5  # of the samples that are drawn: a loop that leaves its epochs early takes no more of them


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of an epoch boundary: means over several boundaries, in seconds."""

    sampler_s: float
    start_s: float
    first_s: float
    teardown_s: float

    @property
    def total_s(self) -> float:
        """Return the seconds of the whole boundary."""
        return self.sampler_s + self.start_s + self.first_s + self.teardown_s


def parts_of(paid: Sequence[Boundary]) -> Parts:
    """Return the mean seconds of each part over the boundaries."""
    size = max(1, len(paid))
    return Parts(
        sampler_s=sum(min(b.sampler_s, b.iter_s) for b in paid) / size,
        start_s=sum(b.start_s for b in paid) / size,
        first_s=sum(b.first_wait_s for b in paid) / size,
        teardown_s=sum(b.teardown_s for b in paid) / size,
    )


def rebuilt(loader: LoaderInfo, found: Sequence[Boundary]) -> list[Boundary]:
    """Return the newest boundaries whose epoch before gave one or two batches of many: S32.

    The list is empty unless nearly all of the newest boundaries are such.
    """
    newest = list(found)[-50:]
    dropped = [b for b in newest if dropped_early(loader, b)]
    return dropped if len(dropped) >= max(MANY_REBUILDS, 0.8 * (len(newest) - 1)) else []


def dropped_early(loader: LoaderInfo, boundary: Boundary) -> bool:
    """Whether the epoch before the boundary gave only one or two of many batches, and was left early."""
    many_exist = loader.batches is None or loader.batches > 2 * FEW_BATCHES
    given = boundary.batches_before
    return (
        many_exist
        and given is not None
        and 0 < given <= FEW_BATCHES
        and boundary.ended_by is not EndedBy.EXHAUSTED
    )


def explain_rebuilt(loader: LoaderInfo, paid: Sequence[Boundary]) -> Explanation:
    """Explain S32: a new iterator is made for nearly every batch."""
    parts = parts_of(paid)
    ahead = (loader.num_workers or 0) * (loader.prefetch_factor or 2)
    spacing_s = (paid[-1].request_ns - paid[0].request_ns) / 1e9 / max(1, len(paid) - 1)
    gap_s = sum(b.gap_s for b in paid) / len(paid)
    wasted = f", and each time {ahead} batches are read ahead and thrown away" if loader.num_workers else ""
    return Explanation(
        scenario="S32",
        confidence=0.9,
        because=f"a new iterator is made for nearly every batch, {duration(parts.total_s)} each",
        cause=f"iter({loader.name}) was called {len(paid)} times lately for one or two batches each{wasted}. This is what"
        " next(iter(loader)) inside the training loop does, or a DataLoader that is built inside it.",
        advice=f"Make the iterator once, outside the loop: `for batch in {loader.name}`, or keep `it = iter({loader.name})` and"
        " call next(it). Do not use itertools.cycle: it keeps every batch in memory.",
        # All the time between two iterators but the loop's own work: forking and ending workers costs more
        # than the parts show.
        saved_s=max(parts.total_s, spacing_s - gap_s),
    )


def explain(loader: LoaderInfo, paid: Sequence[Boundary], usual_fetch_s: float) -> Explanation:
    """Explain what the boundaries cost by the part that costs most, as the scenario of that part.

    ``usual_fetch_s`` is the median time of a fetch in seconds; NaN if it is not known.
    """
    parts = parts_of(paid)
    newest = paid[-1]
    half = 0.5 * parts.total_s
    drawing_s = parts.sampler_s + _drawn_later_s(loader, paid, parts)
    if drawing_s >= half:
        return _sampler(loader, paid, drawing_s)
    if parts.teardown_s >= half and parts.teardown_s >= 1.0:
        return _teardown(loader, parts, newest)
    started = newest.kind is IterKind.STARTED
    filling = _filling(paid, parts, usual_fetch_s)
    if not started and parts.start_s >= 0.3 * parts.total_s and _drains(paid):
        return _reset_drain(loader, parts, paid)
    if parts.first_s >= half and filling and (not started or loader.iterable_dataset):
        return _slow_first_batch(loader, parts, started)
    if started:
        return _workers_started(loader, parts, paid, usual_fetch_s)
    if parts.teardown_s >= max(parts.first_s, parts.start_s):
        return _teardown(loader, parts, newest)
    return _slow_first_batch(loader, parts, started)


def _drains(paid: Sequence[Boundary]) -> bool:
    return any(b.drained > 0 or b.ended_by is EndedBy.BREAK for b in paid)


def _filling(paid: Sequence[Boundary], parts: Parts, usual_fetch_s: float) -> bool:
    """Whether the workers were busy with the first batch themselves, far longer than with a usual one."""
    first_s = _first_fetch_s(paid)
    return first_s >= 0.6 * parts.first_s and not first_s < 3 * usual_fetch_s


def _first_fetch_s(paid: Sequence[Boundary]) -> float:
    """Return the mean seconds of the first fetch of an epoch; NaN where none is known."""
    return mean(np.array([b.first_fetch_s for b in paid]))


def _drawn_later_s(loader: LoaderInfo, paid: Sequence[Boundary], parts: Parts) -> float:
    """Return how long the sampler draws within the first wait: without workers iter(loader) does not ask it for anything yet."""
    drawing_s = parts.first_s - _first_fetch_s(paid)
    return drawing_s if loader.num_workers == 0 and not loader.iterable_dataset and drawing_s > 0 else 0.0


def _sampler(loader: LoaderInfo, paid: Sequence[Boundary], drawing_s: float) -> Explanation:
    size = f" of {loader.dataset_length:,} samples" if loader.dataset_length else ""
    given = [b.batches_before for b in paid if b.batches_before is not None]
    used = max(given, default=0) * (loader.batch_size or 0)
    few = 0 < used <= USED_PART * (loader.dataset_length or 0)
    return Explanation(
        scenario="S15",
        confidence=0.9,
        because=f"the sampler needs {duration(drawing_s)} to draw the order{size}",
        cause=f"Before the first batch of an epoch the sampler builds its whole index list{size} on the training thread, in every"
        " rank.",
        advice=(f"Draw only as many as an epoch takes, {used:,} here (num_samples). " if few else "")
        + "Draw the order in pieces or by a formula (a permutation of shards, replacement=True, a chunked shuffle), or build"
        " the next epoch's list in a thread while this one trains.",
        saved_s=drawing_s,
    )


def _teardown(loader: LoaderInfo, parts: Parts, newest: Boundary) -> Explanation:
    workers = newest.workers or loader.num_workers or 0
    joins = round(parts.teardown_s / JOIN_TIMEOUT_S)
    fingerprint = (
        f" {duration(parts.teardown_s)} is {count(joins, 'time')} the 5 s that a DataLoader waits for a worker that does not end."
        if joins >= 1 and abs(parts.teardown_s - joins * JOIN_TIMEOUT_S) < 0.3
        else ""
    )
    return Explanation(
        scenario="S31",
        confidence=0.9 if fingerprint else 0.75,
        because=f"ending the epoch takes {duration(parts.teardown_s)}, because {count(workers, 'worker')} are still busy"
        if workers != 1
        else f"ending the epoch takes {duration(parts.teardown_s)}, because its worker is still busy",
        cause=f"When an epoch ends, the loader stops its workers one after the other and waits for each to finish what it is"
        f" reading.{fingerprint}",
        advice="Set persistent_workers=True so that workers are not stopped, or leave no long fetch in flight: end the epoch with"
        " the sampler instead of a break, and make single reads shorter.",
        saved_s=parts.teardown_s,
    )


def _reset_drain(loader: LoaderInfo, parts: Parts, paid: Sequence[Boundary]) -> Explanation:
    drained = max(b.drained for b in paid)
    batches = f"{count(drained, 'batch')} " if drained else "the batches "
    factor = loader.prefetch_factor or 2
    return Explanation(
        scenario="S30",
        confidence=0.9 if drained else 0.75,
        because=f"iter({loader.name}) takes {duration(parts.start_s)} to throw away batches that were read ahead",
        cause=f"The epoch before was left early (break), but the persistent workers had been asked for prefetch_factor {factor} ×"
        f" {count(loader.num_workers or 0, 'worker')} more batches. iter() waits until they have read {batches}nobody wants.",
        advice="Let the sampler end the epoch instead of break (RandomSampler(num_samples=…), Subset), keep one endless iterator,"
        f" or lower prefetch_factor (now {factor}).",
        saved_s=parts.start_s,
    )


def _slow_first_batch(loader: LoaderInfo, parts: Parts, started: bool) -> Explanation:
    iterable = bool(loader.iterable_dataset)
    cause = (
        f"The workers are up, but need {duration(parts.first_s)} until the first batch of every epoch: an iterable dataset opens"
        " its shards and fills its shuffle buffer first."
        if iterable
        else f"The workers are up, but the first batch of every epoch has to be read from nothing: {duration(parts.first_s)}."
        " Nothing is read ahead across the end of an epoch."
        if loader.num_workers != 0
        else f"Without workers the loop reads the first batch of every epoch itself, for {duration(parts.first_s)}."
    )
    keep = "persistent_workers=True, " if started else ""
    advice = (
        f"Begin with a small buffer (webdataset: shuffle(size, initial=small)), {keep}and treat the stream as endless with epochs"
        " of a fixed number of steps."
        if iterable
        else "Make epochs longer (repeat the dataset in the sampler), or make the first samples of an epoch cheap to read."
    )
    return Explanation(
        scenario="S33",
        confidence=0.85 if iterable else 0.6,
        because=f"the first batch takes {duration(parts.first_s)} each time",
        cause=cause,
        advice=advice,
        saved_s=parts.first_s,
    )


def _workers_started(
    loader: LoaderInfo, parts: Parts, paid: Sequence[Boundary], usual_fetch_s: float
) -> Explanation:
    workers = paid[-1].workers or loader.num_workers or 0
    method = loader.start_method
    how = f" by {method}" if method else ""
    refill_s = min(parts.first_s, usual_fetch_s) if math.isfinite(usual_fetch_s) else 0.0
    pickled = (
        f" With {method} each worker is a new Python that imports the script again and unpickles the dataset, so keep the"
        " dataset light (paths in a NumPy array)."
        if method in ("spawn", "forkserver")
        else ""
    )
    anew = loader.persistent_workers is True or 2 * sum(b.rebuilt for b in paid) > len(paid)
    advice = (
        "persistent_workers is on, but a new DataLoader is made each epoch: make it once, outside the epoch loop."
        if loader.persistent_workers is True
        else "Make the DataLoader once, outside the epoch loop, and set persistent_workers=True: workers then live through"
        " all epochs. One without the other does not keep them."
        if anew
        else "Set persistent_workers=True: workers then live through all epochs."
    )
    started = (
        f"a new DataLoader is made for every epoch and starts {count(workers, 'worker')}{how}"
        if anew
        else f"{count(workers, 'worker')} {'is' if workers == 1 else 'are'} started anew{how} for every epoch"
    )
    return Explanation(
        scenario="S28",
        confidence=0.9,
        because=f"{started}, {duration(parts.start_s + parts.first_s)} until the first batch",
        cause=f"Every epoch {'makes a new DataLoader, which starts' if anew else 'starts'}"
        f" {count(workers, 'worker process', 'worker processes')}{how} ({duration(parts.start_s)} inside iter()) and then waits {duration(parts.first_s)} for the first batch; ending them took"
        f" {duration(parts.teardown_s)}.{pickled}",
        advice=advice,
        saved_s=max(0.0, parts.total_s - refill_s),
    )
