"""Causes of slow reads where the loader is right: S08, S09, S10 and S11.

S09 is a page cache that still fills or is too small, S10 storage that slowed down at one moment (S08, where it is asked over the
network), S11 reading far more than is used.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from loaderwatch.core.facts import AT_WORK, LOCK_WAIT, StackDump
from loaderwatch.core.system import SOCKET_FUNCTIONS, waits_in
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.finding import known_evidence
from loaderwatch.detect.input_bound.spikes import LOCKED_OUT_RATIO, locked_ratio, stand_still_together
from loaderwatch.detect.input_bound.symptoms import Symptoms
from loaderwatch.detect.limits import CROWDED_DELAY_RATIO, LATENCY_CPU_RATIO
from loaderwatch.detect.measures.machine import RECENT_NS, written_per_s
from loaderwatch.detect.measures.stacks import main_frames, user_frame
from loaderwatch.detect.measures.statistics import mean, median, ratio, total, trend
from loaderwatch.detect.text import count, duration, percent, rate, size

AMPLIFICATION = 10.0  # a decoded JPEG is larger than its file; a large photo for a small crop reaches eight
AMPLIFIED_BYTES = 256 * 1024  # read for one sample
DECODERS = (
    *(
        "/PIL/",
        "/cv2/",
        "/torchvision/io/",
        "/imageio/",
        "/tifffile/",
        "/skimage/io/",
        "/pydicom/",
        "/rawpy/",
    ),
    *("/torchaudio/", "/soundfile.py", "/librosa/", "/audioread/", "/av/", "/decord/", "/torchcodec/"),
)
REFAULT_RATIO = 0.3  # of what the workers read from storage had been evicted from the page cache
FROM_STORAGE_RATIO = 0.3  # of all that the workers read comes from storage
PAGE_BYTES = 4096  # the least that storage is asked for
SEEK_S = 0.02  # that a page takes at most: a busy spinning disk, or network storage, in random order
PAGE_CPU_S = 5e-6  # of the CPU that the kernel takes to bring a page in and another one out; 9 µs measured on a virtual machine
SEEKING_RATIO = 0.5  # of the workers' time, that pages from storage must be able to take to be the cause
WARMING_ROWS = 12
WARMING_RATIO = 0.85  # the last third of the fetches (or waits) against the first
WARMING_TREND = 0.5  # rank correlation with their order; single late ones hardly change it
FILLING_BYTES = 1024  # written for a sample, which a line in a log does not reach
FILLING_PART = 0.25  # of what the sample takes in its batch: what is kept of it may be smaller there
COLD_RATIO = (
    0.5  # of a first epoch's fetches, from which on it is the data that is cold, and no sample that is slow
)
COLD_PART = 0.5  # of the fetch behind a usual long wait: as slow as those
FEW_COLD = 2  # slow fetches of each worker: the first one of each starts it, too
WARMING_SIGMAS = 3.0  # standard deviations: for n values without a trend, one is 1 / sqrt(n - 1)


def slowed_down(s: Symptoms) -> Explanation | None:
    """Explain S10, the storage slowed down for all workers at once, or S08, what they ask over the network did; None otherwise."""
    change = s.history.change if s.history is not None else None
    machine, workers = s.machine, s.workers
    if change is None:
        return None
    if change.cpu_ratio >= LATENCY_CPU_RATIO:
        return None  # they compute: the machine is busy, or the samples got harder
    if machine.worker_delay_ratio >= CROWDED_DELAY_RATIO:
        return None  # they wait for a CPU, not for the storage
    factor = change.after_s / change.before_s
    ago_s = (s.pace.rank.made_ns - change.at_ns) / 1e9
    cap = machine.read_bytes_per_s if machine.read_bytes_per_s > 0.5 * change.bytes_per_s_after else math.nan
    held_at = cap if math.isfinite(cap) else change.bytes_per_s_after
    held = f" Reading is held at about {size(held_at)}/s." if held_at > 0 else ""
    after_s = max(s.step_s, change.before_s / workers)
    who = "all workers" if workers > 1 else "the worker"
    found = Explanation(
        scenario="S10",
        confidence=0.92,
        because=f"for {duration(ago_s)} now, fetches have taken {rate(factor)} times as long in {who} at once"
        f" ({duration(change.before_s)} → {duration(change.after_s)}), and nobody computes more",
        cause=f"Fetches went from {duration(change.before_s)} to {duration(change.after_s)} in {who} at the same moment,"
        f" while the batches stayed as large and the CPUs idle ({percent(change.cpu_ratio)} of the reading time is"
        f" computing): the storage gives less than before.{held} Burst credits that are used up, a throughput cap or a"
        " neighbour on a shared file system look like this.",
        advice="Look at the volume's burst balance and limits (IOPS and MB/s): provision more of them, copy the data to a local"
        " disk, or read fewer and larger pieces. It recovers by itself when credits refill. More workers share the same cap.",
        gain_ceiling_ratio=s.gain(after_s),
        evidence=known_evidence(
            ("fetch before the change", change.before_s, "s"),
            ("fetch since", change.after_s, "s"),
            ("changed so long ago", ago_s, "s"),
            ("workers that changed together", workers, "count"),
            ("batch bytes per second before", change.bytes_per_s_before, "bytes"),
            ("batch bytes per second since", change.bytes_per_s_after, "bytes"),
            ("read from storage per second", machine.read_bytes_per_s, "bytes"),
            ("I/O pressure", machine.psi_io_ratio, "ratio"),
        ),
    )
    dumps = s.passing_stacks(LOCK_WAIT)
    asking = [dump for dump in dumps if waits_in(SOCKET_FUNCTIONS, dump.wchan)]
    return _answers_slower(found, asking[-1]) if asking and 2 * len(asking) > len(dumps) else found


def _answers_slower(found: Explanation, dump: StackDump) -> Explanation:
    """Return the finding as S08: workers wait for answers from the network, not for a disk."""
    frame = user_frame(main_frames(dump))
    return replace(
        found,
        scenario="S08",
        cause="Fetches have become slower in all workers at the same moment, while the batches stayed as large and the CPUs idle: what they"
        " ask over the network answers slower than before, or is asked in another way."
        + (f" Worker {dump.worker} was found waiting for it at {frame}, see its stack." if frame else ""),
        advice="See what changed there: a limit of requests, retries, a cache that expired, a service under load. A request that is written"
        " in pieces waits some 40 ms for each without TCP_NODELAY. Ask for many samples at once; more workers help as far as the service"
        " serves them side by side.",
        stacks=[dump],
    )


def stops(s: Symptoms) -> Explanation | None:
    """Explain S10: all workers stand still at the same moments, in reads that are not answered; None otherwise."""
    if not (stand_still_together(s.pace, s.spikes) and locked_ratio(s.pace, s.spikes) < LOCKED_OUT_RATIO):
        return None  # nor as long as nobody has looked at the workers then
    longest_s = max(spike.fetch_s or 0.0 for spike in s.spikes)
    return Explanation(
        scenario="S10",
        confidence=0.85,
        because=f"all {s.workers} workers stand still at the same moments, {count(len(s.spikes), 'time')} so far, for up to"
        f" {duration(longest_s)}, and nobody computes",
        cause="No sample is to blame: no worker computes meanwhile, and they go on together. The storage or the server behind them stops"
        " now and then for everybody.",
        advice="Look at what they read from at these times: pauses of a server, limits, a mount that is reached anew. A larger"
        " prefetch_factor bears short stops, a local copy all. More workers stand still as well.",
        gain_ceiling_ratio=s.gain(s.without_spikes_s),
        evidence=known_evidence(
            ("moments in which all workers stood still", len(s.spikes), "count"),
            ("longest of them", longest_s, "s"),
            ("read from storage per second", s.machine.read_bytes_per_s, "bytes"),
        ),
    )


def amplification(s: Symptoms) -> Explanation | None:
    """Explain S11: far more is read than ends up in the batches; None otherwise."""
    fetches, machine = s.pace.fetches, s.machine
    lately = fetches.ended_ns >= s.pace.rank.made_ns - RECENT_NS
    seconds = RECENT_NS / 1e9
    used_per_s = total(fetches.bytes[lately]) / seconds
    samples_per_s = float(fetches.samples[lately & (fetches.samples > 0)].sum()) / seconds
    read_per_s = machine.read_chars_per_s
    factor, each = ratio(read_per_s, used_per_s), ratio(read_per_s, samples_per_s)
    if not (factor >= AMPLIFICATION and each >= AMPLIFIED_BYTES) or _decodes(s):
        return None
    one = ratio(used_per_s, samples_per_s)
    fetch_s = mean(fetches.fetch_s[lately])
    after_s = max(s.step_s, fetch_s / factor / s.workers)
    return Explanation(
        scenario="S11",
        confidence=0.85,
        because=f"the workers read {size(each)} for each sample of {size(one)}, {rate(factor)} times what is used",
        cause=f"For each sample of {size(one)} the workers read {size(each)} ({size(read_per_s)}/s in all), {rate(factor)} times what ends"
        f" up in a batch, and spend {percent(s.fetch_cpu_ratio)} of the time computing on it. Random access into large"
        " compressed chunks, row groups or archives does this: a whole block is read and unpacked for one sample. So does a file"
        " that is read from its beginning to reach one row.",
        advice="Make what is stored as large as what is read: one sample per chunk (or chunks of a batch), an uncompressed or LZ4"
        " container, or read chunks in sequence and shuffle in a buffer (Hugging Face: flatten_indices() or"
        " to_iterable_dataset().shuffle()). In a file of lines, keep where each begins and seek there. If the files are large photos or"
        " recordings, cut or shrink them once ahead of time.",
        gain_ceiling_ratio=s.gain(after_s),
        evidence=known_evidence(
            ("read per sample", each, "bytes"),
            ("used per sample", one, "bytes"),
            ("read per second by the workers", read_per_s, "bytes"),
            ("read for each byte used", factor, "count"),
        ),
    )


def _decodes(s: Symptoms) -> bool:
    """Whether the workers are mostly found decoding pictures or sound: their files are read whole, and computing is what takes the time."""
    dumps = s.passing_stacks(AT_WORK)
    decoding = [
        dump
        for dump in dumps
        if any(part in frame.file for frame in main_frames(dump) if frame.library for part in DECODERS)
    ]
    return 2 * len(decoding) > len(dumps)


def thrashing_cache(s: Symptoms) -> Explanation | None:
    """Explain a lasting S09: the page cache is too small, and every epoch reads from storage again.

    None otherwise.
    """
    machine = s.machine
    from_storage, refaults = machine.read_bytes_per_s, machine.refault_bytes_per_s
    if not (
        not s.first_epoch
        and from_storage > 0
        and from_storage / PAGE_BYTES * SEEK_S >= SEEKING_RATIO * s.workers
        and refaults >= REFAULT_RATIO * from_storage
        and from_storage >= FROM_STORAGE_RATIO * machine.read_chars_per_s
        and s.fetch_cpu_ratio - from_storage / PAGE_BYTES * PAGE_CPU_S / s.workers < 2 * LATENCY_CPU_RATIO
    ):
        return None
    cpu_s = mean(s.pace.fetches.cpu_s)
    after_s = max(s.step_s, (cpu_s if math.isfinite(cpu_s) else 0.0) / s.workers)
    return Explanation(
        scenario="S09",
        confidence=0.93,
        because=f"{size(from_storage)}/s come from storage again in every epoch, because the page cache cannot hold the dataset",
        cause=f"This is not the first epoch, yet the workers still read {size(from_storage)}/s from storage, and"
        f" {size(refaults)}/s of that had been in memory and was evicted. The dataset is larger than the memory that is"
        " left for the page cache, and reading it in random order evicts what is needed next: it will not get faster.",
        advice="Give the job more memory (a container's limit counts its page cache), use fewer workers if they take the memory,"
        " store the samples smaller, or pack them into shards that are read in sequence with a shuffle buffer.",
        gain_ceiling_ratio=s.gain(after_s),
        evidence=known_evidence(
            ("read from storage per second", from_storage, "bytes"),
            ("of that, evicted from memory before", refaults, "bytes"),
            ("memory available", machine.available_bytes, "bytes"),
            ("memory limit reached", machine.limit_hits_per_s, "per_s"),
            ("page faults of a worker that wait for storage", machine.worker_faults_per_s, "per_s"),
            ("I/O pressure", machine.psi_io_ratio, "ratio"),
        ),
    )


def warming_cache(s: Symptoms) -> Explanation | None:
    """Explain a passing S09: a first epoch that reads from cold storage and gets faster; None otherwise.

    For workers that compute without a CPU to spare, S07 comes first: no cache gives them more CPU.
    """
    if not _warms_up(s):
        return None
    waits = s.pace.wait_s
    third = waits.size // 3
    early_s, late_s = mean(waits[:third]), mean(waits[-third:])
    return Explanation(
        scenario="S09",
        confidence=0.5,
        because=f"waits are getting shorter ({duration(early_s)} → {duration(late_s)}), as in a first epoch on cold storage",
        cause="This is the first epoch, and reading gets faster as it goes on: the page cache fills. If the dataset fits into"
        " memory, the next epoch will be fast.",
        advice="Wait for the second epoch. If that one waits as long, the dataset does not fit into memory: stage it on a local disk"
        " or pack it into shards that are read in sequence.",
    )


def fills_cache(s: Symptoms) -> Explanation | None:
    """Explain a passing S09: a first epoch whose readers write as they read, as those of a dataset with a cache of its own.

    Only where an epoch ends: else it would be an excuse for ever. Logs and checkpoints of a loop that reads itself are less, or rare.
    """
    fetches = s.pace.fetches
    if not (s.first_epoch and s.loader.batches is not None and fetches.ended_ns.size):
        return None
    until_ns = int(fetches.ended_ns.max())  # not now: the training may be over
    lately = (fetches.ended_ns >= until_ns - RECENT_NS) & (fetches.samples > 0)
    if not lately.any():
        return None
    samples = float(fetches.samples[lately].sum())
    seconds = (until_ns - int(fetches.began_ns[lately].min())) / 1e9
    written = written_per_s(s.pace.rank, s.loader.loader, until_ns) * seconds
    each, used = ratio(written, samples), ratio(total(fetches.bytes[lately]), samples)
    if not each >= max(FILLING_BYTES, FILLING_PART * np.nan_to_num(used)):
        return None
    return Explanation(
        scenario="S09",
        confidence=0.5,
        because=f"in its first epoch it writes {size(each)} for each sample that it reads, as into a cache",
        cause="If later epochs read what is written now, they will be quick.",
        advice="Wait for the second epoch. To save the first one, fill the cache before training, on all CPUs. If it is no cache, see what is"
        " written for each sample.",
        evidence=known_evidence(
            ("written for each sample", each, "bytes"), ("a sample in a batch", used, "bytes")
        ),
    )


def cold_first_epoch(s: Symptoms) -> Explanation | None:
    """Explain an S09 that is over: long waits of a first epoch whose batches nearly all took long; None otherwise.

    No sample is to blame where most were as slow, and later ones are quick.
    """
    pace, spikes = s.pace, s.spikes
    rows = np.isin(pace.request_ns, [spike.request_ns for spike in spikes])
    if (pace.epoch[rows] != 0).any() or any(spike.open for spike in spikes):
        return None
    last_ns = max(spike.request_ns + int(spike.wait_s * 1e9) for spike in spikes)
    cold_s = median(np.array([spike.fetch_s or spike.wait_s for spike in spikes]))
    fetches = pace.fetches
    then = fetches.began_ns < last_ns
    slow = then & (fetches.fetch_s >= COLD_PART * cold_s)
    of_each = [int((fetches.worker[slow] == worker).sum()) for worker in range(s.workers)]
    if min(of_each) < FEW_COLD or not ratio(float(slow.sum()), float(then.sum())) >= COLD_RATIO:
        return None
    since_s = median(fetches.fetch_s[~then])
    quick = f", and {duration(since_s)} since" if math.isfinite(since_s) else ""
    return Explanation(
        scenario="S09",
        confidence=0.6,
        because=f"in the first epoch nearly every batch took about {duration(cold_s)} to read{quick}, as from cold storage",
        cause=f"{percent(float(slow.sum()) / float(then.sum()))} of the batches up to then took as long, in every worker, so no"
        " sample is to blame: what is read for the first time comes from storage (or fills a cache of the dataset's own),"
        " and is in memory afterwards.",
        advice="If the next epochs stay quick, there is nothing to do; to save the first one, stage the data on a local disk or"
        " read it once before training. If they wait as long, the dataset does not fit into memory.",
        evidence=known_evidence(
            ("fetch in the first epoch, median of the slow ones", cold_s, "s"),
            ("fetch since, median", since_s, "s"),
        ),
    )


def _warms_up(s: Symptoms) -> bool:
    """Whether the fetches of the first epoch get shorter, as when the page cache fills: no case for an alert yet.

    Either they still do, or they have become short enough for the model.
    """
    pace = s.pace
    if s.history is None or pace.wait_s.size < WARMING_ROWS or not s.first_epoch:
        return False
    fetches = s.history.fetch_s  # not only the recent ones: a few rounds may fall by chance
    waits = pace.wait_s[:-1] if pace.open_wait else pace.wait_s  # how long an open one takes is not known
    series = fetches if fetches.size >= WARMING_ROWS else waits
    thirds = np.array_split(series, 3)
    first, second, last = (median(third) for third in thirds)
    # The workers share the machine: the fetches of one round are one independent value.
    rounds = max(2.0, series.size / s.workers)
    steep = trend(series) < -max(WARMING_TREND, WARMING_SIGMAS / math.sqrt(rounds - 1))
    enough = series is fetches and last <= s.workers * s.step_s
    return last < WARMING_RATIO * first and steep and (first > second > last or enough)
