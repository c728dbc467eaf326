"""Causes of slow reads by a reasonable loader: S08, S09, S10 and S11.

S09 is a page cache that still fills or is too small. S10 is storage that slowed down at one moment (S08 if it
is reached over the network). S11 is reading far more than is used.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from loaderwatch.core.facts import AT_WORK, LOCK_WAIT, StackDump
from loaderwatch.core.system import SOCKET_FUNCTIONS, waits_in
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.finding import Explanation, known_evidence
from loaderwatch.detect.input_bound.spikes import LOCKED_OUT_RATIO, locked_ratio, stand_still_together
from loaderwatch.detect.input_bound.symptoms import Symptoms
from loaderwatch.detect.measures.machine import RECENT_NS, written_per_s
from loaderwatch.detect.measures.stacks import code_line, main_frames, user_frame
from loaderwatch.detect.measures.statistics import mean, median, ratio, total, trend
from loaderwatch.detect.shared_thresholds import CROWDED_DELAY_RATIO, LATENCY_CPU_RATIO

AMPLIFIED_FACTOR: Final = threshold(
    10.0, "factor", "a decoded JPEG is larger than its file; a large photo for a small crop reaches eight"
)
AMPLIFIED_BYTES: Final = threshold(256 * 1024, "bytes", "chosen: per sample, to leave out small files")
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
REFAULT_RATIO: Final = threshold(
    0.3, "ratio", "chosen: of the workers' reads from storage; so much was evicted from the page cache before"
)
FROM_STORAGE_RATIO: Final = threshold(
    0.3, "ratio", "chosen: of all that the workers read; so much is from storage"
)
PAGE_BYTES: Final = threshold(4096, "bytes", "a page of memory is the smallest read from storage")
SEEK_S: Final = threshold(
    0.02, "s", "chosen: the longest read of a page, on a busy spinning disk or random network storage"
)
PAGE_CPU_S: Final = threshold(
    5e-6, "s", "chosen: the kernel's CPU time to replace a page; 9 µs measured on a virtual machine"
)
SEEKING_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the workers' time; reading pages from storage must be able to take so much"
)
FEW_WARMING_FETCHES: Final = threshold(
    12, "fetches", "chosen: three thirds of four fetches, or waits, are compared"
)
WARMING_RATIO: Final = threshold(
    0.85, "ratio", "chosen: the last third of the fetches, or waits, over the first"
)
WARMING_TREND: Final = threshold(
    0.5, "rank correlation", "chosen: of fetches with their order; single late fetches hardly change it"
)
FILLING_BYTES: Final = threshold(1024, "bytes", "chosen: written per sample; a line in a log is shorter")
FILLING_RATIO: Final = threshold(
    0.25, "ratio", "chosen: of a sample's bytes in its batch; a cache may keep samples in a smaller form"
)
COLD_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of a first epoch's fetches; if so many were slow, the data was cold"
)
COLD_FETCH_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the fetch behind a usual long wait; other fetches of that length were cold, too"
)
FEW_COLD_FETCHES: Final = threshold(
    2, "fetches", "chosen: per worker; the first slow fetch also starts the worker"
)
WARMING_SIGMAS: Final = threshold(
    3.0, "standard deviations", "chosen: one is 1 / sqrt(n - 1) for n values without a trend"
)


def slowed_down(s: Symptoms) -> Explanation | None:
    """Explain S10, storage that slowed down for all workers at once, or S08 if they read over the network.

    None otherwise.
    """
    change = s.history.change if s.history is not None else None
    machine, workers = s.machine, s.workers
    if change is None:
        return None
    if change.cpu_ratio >= LATENCY_CPU_RATIO:
        return None  # the workers compute: the machine is busy, or the samples got harder
    if machine.worker_delay_ratio >= CROWDED_DELAY_RATIO:
        return None  # the workers wait for a CPU, not for the storage
    factor = change.after_s / change.before_s
    ago_s = (s.pace.rank.made_ns - change.at_ns) / 1e9
    cap = machine.read_bytes_per_s if machine.read_bytes_per_s > 0.5 * change.bytes_per_s_after else math.nan
    held_at = cap if math.isfinite(cap) else change.bytes_per_s_after
    after_s = max(s.step_s, change.before_s / workers)
    slower = Explanation(
        scenario="S10",
        confidence=0.92,
        rule="storage-slowed-down",
        params={
            "workers": workers,
            "ago_s": ago_s,
            "factor": factor,
            "before_s": change.before_s,
            "after_s": change.after_s,
            "cpu_ratio": change.cpu_ratio,
            "held_bytes": held_at if held_at > 0 else None,
        },
        gain_ceiling_ratio=s.gain(after_s),
        evidence=known_evidence(
            ("fetch-before-the-change", change.before_s, "s"),
            ("fetch-since", change.after_s, "s"),
            ("changed-so-long-ago", ago_s, "s"),
            ("workers-that-changed-together", workers, "count"),
            ("batch-bytes-per-second-before", change.bytes_per_s_before, "bytes"),
            ("batch-bytes-per-second-since", change.bytes_per_s_after, "bytes"),
            ("read-from-storage-per-second", machine.read_bytes_per_s, "bytes"),
            ("i-o-pressure", machine.psi_io_ratio, "ratio"),
        ),
    )
    dumps = s.passing_stacks(LOCK_WAIT)
    asking = [dump for dump in dumps if waits_in(SOCKET_FUNCTIONS, dump.wchan)]
    return _answers_slower(slower, asking[-1]) if asking and 2 * len(asking) > len(dumps) else slower


def _answers_slower(slower: Explanation, dump: StackDump) -> Explanation:
    """Return the finding as S08: workers wait for answers from the network, not for a disk."""
    return replace(
        slower,
        scenario="S08",
        rule="answers-slowed-down",
        params={
            **slower.params,
            "worker": dump.worker,
            "line": code_line(user_frame(main_frames(dump))),
        },
        stacks=[dump],
    )


def stops(s: Symptoms) -> Explanation | None:
    """Explain S10: all workers stand still together, in reads without an answer; None otherwise."""
    if not (stand_still_together(s.pace, s.spikes) and locked_ratio(s.pace, s.spikes) < LOCKED_OUT_RATIO):
        return None  # also None if no look at the workers falls into these moments
    longest_s = max(spike.fetch_s or 0.0 for spike in s.spikes)
    return Explanation(
        scenario="S10",
        confidence=0.85,
        rule="storage-stops",
        params={"workers": s.workers, "times": len(s.spikes), "longest_s": longest_s},
        gain_ceiling_ratio=s.gain(s.without_spikes_s),
        evidence=known_evidence(
            ("moments-in-which-all-workers-stood-still", len(s.spikes), "count"),
            ("longest-of-them", longest_s, "s"),
            ("read-from-storage-per-second", s.machine.read_bytes_per_s, "bytes"),
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
    factor, read_bytes = ratio(read_per_s, used_per_s), ratio(read_per_s, samples_per_s)
    if not (factor >= AMPLIFIED_FACTOR and read_bytes >= AMPLIFIED_BYTES) or _decodes(s):
        return None
    used_bytes = ratio(used_per_s, samples_per_s)
    fetch_s = mean(fetches.fetch_s[lately])
    after_s = max(s.step_s, fetch_s / factor / s.workers)
    return Explanation(
        scenario="S11",
        confidence=0.85,
        rule="read-amplification",
        params={
            "read_bytes": read_bytes,
            "used_bytes": used_bytes,
            "rate_bytes": read_per_s,
            "factor": factor,
            "cpu_ratio": s.fetch_cpu_ratio,
        },
        gain_ceiling_ratio=s.gain(after_s),
        evidence=known_evidence(
            ("read-per-sample", read_bytes, "bytes"),
            ("used-per-sample", used_bytes, "bytes"),
            ("read-per-second-by-the-workers", read_per_s, "bytes"),
            ("read-for-each-byte-used", factor, "count"),
        ),
    )


def _decodes(s: Symptoms) -> bool:
    """Whether workers mostly decode pictures or sound: whole files are read, and computing takes the time."""
    dumps = s.passing_stacks(AT_WORK)
    decoding = [
        dump
        for dump in dumps
        if any(part in frame.file for frame in main_frames(dump) if frame.library for part in DECODERS)
    ]
    return 2 * len(decoding) > len(dumps)


def thrashing_cache(s: Symptoms) -> Explanation | None:
    """Explain a lasting S09: the page cache is too small for the data; None otherwise."""
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
        rule="page-cache-too-small",
        params={"read_bytes": from_storage, "evicted_bytes": refaults},
        gain_ceiling_ratio=s.gain(after_s),
        evidence=known_evidence(
            ("read-from-storage-per-second", from_storage, "bytes"),
            ("evicted-from-memory-before", refaults, "bytes"),
            ("memory-available", machine.available_bytes, "bytes"),
            ("memory-limit-reached", machine.limit_hits_per_s, "per_s"),
            ("page-faults-of-a-worker-that-wait-for-storage", machine.worker_faults_per_s, "per_s"),
            ("i-o-pressure", machine.psi_io_ratio, "ratio"),
        ),
    )


def warming_cache(s: Symptoms) -> Explanation | None:
    """Explain a passing S09: a first epoch that reads from cold storage and gets faster; None otherwise.

    S07 comes first for workers that compute and have no CPU to spare: no cache gives them more CPU.
    """
    if not _warms_up(s):
        return None
    waits = s.pace.wait_s
    third = waits.size // 3
    early_s, late_s = mean(waits[:third]), mean(waits[-third:])
    return Explanation(
        scenario="S09",
        confidence=0.5,
        rule="page-cache-fills",
        params={"early_s": early_s, "late_s": late_s},
    )


def fills_cache(s: Symptoms) -> Explanation | None:
    """Explain a passing S09: readers that write in the first epoch, such as a dataset with its own cache.

    None otherwise, also if epochs never end: the first epoch would excuse the wait forever. Logs and
    checkpoints of a loop without workers are smaller, or rare.
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
    written_bytes, used_bytes = ratio(written, samples), ratio(total(fetches.bytes[lately]), samples)
    if not written_bytes >= max(FILLING_BYTES, FILLING_RATIO * np.nan_to_num(used_bytes)):
        return None
    return Explanation(
        scenario="S09",
        confidence=0.5,
        rule="dataset-fills-cache",
        params={"written_bytes": written_bytes},
        evidence=known_evidence(
            ("written-for-each-sample", written_bytes, "bytes"), ("a-sample-in-a-batch", used_bytes, "bytes")
        ),
    )


def cold_first_epoch(s: Symptoms) -> Explanation | None:
    """Explain an S09 that has ended: in the first epoch most batches took long; None otherwise.

    No sample is to blame if most were as slow, and later ones are fast.
    """
    pace, spikes = s.pace, s.spikes
    rows = np.isin(pace.request_ns, [spike.request_ns for spike in spikes])
    if (pace.epoch[rows] != 0).any() or any(spike.open for spike in spikes):
        return None
    last_ns = max(spike.request_ns + int(spike.wait_s * 1e9) for spike in spikes)
    cold_s = median(np.array([spike.fetch_s or spike.wait_s for spike in spikes]))
    fetches = pace.fetches
    then = fetches.began_ns < last_ns
    slow = then & (fetches.fetch_s >= COLD_FETCH_RATIO * cold_s)
    of_each = [int((fetches.worker[slow] == worker).sum()) for worker in range(s.workers)]
    if min(of_each) < FEW_COLD_FETCHES or not ratio(float(slow.sum()), float(then.sum())) >= COLD_RATIO:
        return None
    since_s = median(fetches.fetch_s[~then])
    return Explanation(
        scenario="S09",
        confidence=0.6,
        rule="first-epoch-was-cold",
        params={
            "cold_s": cold_s,
            "since_s": since_s,
            "slow_ratio": float(slow.sum()) / float(then.sum()),
        },
        evidence=known_evidence(
            ("fetch-in-the-first-epoch-median-of-the-slow-ones", cold_s, "s"),
            ("fetch-since-median", since_s, "s"),
        ),
    )


def _warms_up(s: Symptoms) -> bool:
    """Whether the fetches of the first epoch get shorter, as while the page cache fills: no alert yet.

    They must still get shorter, or be short enough for the model by now.
    """
    pace = s.pace
    if s.history is None or pace.wait_s.size < FEW_WARMING_FETCHES or not s.first_epoch:
        return False
    fetches = s.history.fetch_s  # not only the recent ones, because a few rounds may get faster by chance
    waits = pace.wait_s[:-1] if pace.open_wait else pace.wait_s  # the length of an open wait is not known
    series = fetches if fetches.size >= FEW_WARMING_FETCHES else waits
    thirds = np.array_split(series, 3)
    first, second, last = (median(third) for third in thirds)
    # The workers share the machine, so the fetches of one round count as one independent value.
    rounds = max(2.0, series.size / s.workers)
    steep = trend(series) < -max(WARMING_TREND, WARMING_SIGMAS / math.sqrt(rounds - 1))
    enough = series is fetches and last <= s.workers * s.step_s
    return last < WARMING_RATIO * first and steep and (first > second > last or enough)
