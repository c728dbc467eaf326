"""The open span in a ring's header: a process's current activity, as 64-bit words.

Each phase has one word, the time when it began (``UNKNOWN`` while it is not open). The phases of a process
are nested. So the innermost phase is the one that began last, and the store of one word begins or ends a
phase. Passes of the model inside an optimizer's step, from a closure, are part of that step: else an endless
search that calls the closure would look new in each pass.

Further words hold the *place*: loader, epoch, batch, counters. ``write_span`` writes all words, with a
version number at both ends; the two agree only if the span is complete. The hot path then stores single
words, and the reader computes the counters from the batch.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from typing import Final

from loaderwatch.core.records import UNKNOWN, Phase

WORDS_AT: Final = 128
"""Where the words of the open span begin. Words that change with every batch are first, in one cache line."""
_PHASES: Final = tuple(Phase)
CURSOR_WORD: Final = 0
BATCH_WORD: Final = 2  # 1: the version
AWAITED_WORD: Final = 3
SINCE_WORDS: Final[dict[int, int]] = {phase: 4 + place for place, phase in enumerate(_PHASES)}
STEPS_WORD: Final = 4 + len(_PHASES) + 5  # after loader, epoch, follows, step and batches; then samples
BATCHES_WORD: Final = STEPS_WORD - 1
SAMPLES_WORD: Final = STEPS_WORD + 1
PHASE_NAME_WORD: Final = STEPS_WORD + 2
_SAMPLE_WORD: Final = PHASE_NAME_WORD + 1  # index and since
_WORDS: Final = _SAMPLE_WORD + 3  # the version again
_SPAN: Final = struct.Struct(f"<{_WORDS - 1}q")
_SPAN_AT: Final = WORDS_AT + 8
_SAMPLE: Final = struct.Struct("<2q")
_NOT_BEGUN: Final = (UNKNOWN,) * len(_PHASES)
_UNDELIVERED: Final = frozenset({Phase.ITER, Phase.WAIT, Phase.TEARDOWN})
"""Phases in which the batch of the span has not been delivered."""
_PASSES: Final = frozenset({Phase.FORWARD, Phase.BACKWARD})
_STEP: Final = _PHASES.index(Phase.STEP)
_OPTIMIZER: Final = _PHASES.index(Phase.OPTIMIZER)
_AROUND: Final = tuple(
    place for place, phase in enumerate(_PHASES) if phase not in {*_PASSES, Phase.OPTIMIZER}
)
"""Indices of the phases around an optimizer's step or a model's pass; the innermost open one began last."""
STEP_FOLLOWS: Final = 1
STEPS_FOLLOW: Final = 2
"""Flags of ``write_span``: the span's ``step`` or ``steps`` grows by one per batch, so nobody stores it.

Without STEP_FOLLOWS, ``step`` grows with ``steps``. Without STEPS_FOLLOW, the writer stores new ``steps``.
"""
SAMPLE_AT: Final = WORDS_AT + 8 * _SAMPLE_WORD
pack_sample: Final = _SAMPLE.pack_into


@dataclass(frozen=True, slots=True)
class OpenSpan:
    """A process's current activity. Integers are ``UNKNOWN`` where they do not apply; times are monotonic."""

    phase: Phase
    since_ns: int
    step_since_ns: int  # when the step of this phase began
    loader: int
    epoch: int
    batch: int
    step: int
    awaited_worker: int
    sample_index: int
    sample_since_ns: int
    batches: int  # the progress counters: delivered (training process) or fetched (worker) so far
    steps: int
    samples: int
    phase_name: int  # index into ProcessInfo.phase_names while phase is USER


def words_of(memory: mmap.mmap | bytearray) -> memoryview[int]:
    """Return a view of the header's words, to store them one at a time."""
    return memoryview(memory)[WORDS_AT : WORDS_AT + 8 * _WORDS].cast("q")


def write_span(
    memory: mmap.mmap | bytearray,
    version: int,
    follows: int,
    phase: int,
    since_ns: int,
    loader: int,
    epoch: int,
    batch: int,
    step: int,
    awaited_worker: int,
    sample_index: int,
    sample_since_ns: int,
    batches: int,
    steps: int,
    samples: int,
    phase_name: int,
) -> None:
    """Write the whole open span, with no other phase open.

    Args:
        memory: the ring's memory.
        version: a number other than 0 and other than in the last call.
        follows: ``STEP_FOLLOWS`` and ``STEPS_FOLLOW``, the counters that grow with each stored batch number.
            The counter ``batches`` always does.
        phase: this and the other arguments are the fields of ``OpenSpan``.
    """
    known = batch != UNKNOWN
    delivered = batch + (phase not in _UNDELIVERED) if known else 0
    if step != UNKNOWN:
        step -= delivered if follows & STEP_FOLLOWS else steps
    place = SINCE_WORDS[phase] - 4
    # One pack_into copies front to back: until it is done, the trailing version differs from the leading one.
    _SPAN.pack_into(
        memory,
        _SPAN_AT,
        version,
        batch,
        awaited_worker,
        *_NOT_BEGUN[:place],
        since_ns,
        *_NOT_BEGUN[place + 1 :],
        loader,
        epoch,
        follows,
        step,
        batches - delivered,
        steps - batch if follows & STEPS_FOLLOW and known else steps,
        samples,
        phase_name,
        sample_index,
        sample_since_ns,
        version,
    )


def read_span(memory: mmap.mmap) -> OpenSpan | None:
    """Return the open span; None if there is none yet, or the writer was killed during the write."""
    for _ in range(8):
        words = _SPAN.unpack_from(memory, _SPAN_AT)
        if words[0] == words[-1] and words == _SPAN.unpack_from(memory, _SPAN_AT):
            return _open_span(words) if words[0] else None
    return None


def _open_span(words: tuple[int, ...]) -> OpenSpan:
    """Decode the words from the version on."""
    _, batch, awaited, *since = words[: 3 + len(_PHASES)]
    loader, epoch, follows, step, batches, steps, samples, name, index, sample_since, _ = words[
        3 + len(_PHASES) :
    ]
    since_ns = max(since)
    phase = _PHASES[since.index(since_ns)]
    around_ns = max(since[number] for number in _AROUND)
    if phase in _PASSES and since[_OPTIMIZER] > around_ns:
        phase, since_ns = Phase.OPTIMIZER, since[_OPTIMIZER]
    delivered = batch + (phase not in _UNDELIVERED) if batch != UNKNOWN else 0
    batches += delivered
    if follows & STEPS_FOLLOW and batch != UNKNOWN:
        steps += batch
    if step != UNKNOWN:
        step += delivered if follows & STEP_FOLLOWS else steps
    if not sample_since:  # the writer is writing the sample at this moment
        index = sample_since = UNKNOWN
    return OpenSpan(
        phase,
        since_ns,
        around_ns if around_ns == since[_STEP] else UNKNOWN,
        loader,
        epoch,
        batch,
        step,
        awaited if phase is Phase.WAIT else UNKNOWN,
        index,
        sample_since,
        batches,
        steps,
        samples,
        name if phase is Phase.USER else UNKNOWN,
    )
