"""Layout of the hot path: the words of the ring that it writes, and its thresholds."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Final

from loaderwatch.core.records import RECORD_FIELDS, SLOT_FIELDS, UNKNOWN, Phase, RecordKind
from loaderwatch.core.ring import HEADER_BYTES, MAIN_CAPACITY, SHORT_STEP, Memory
from loaderwatch.core.ring.span import (
    AWAITED_WORD,
    BATCH_WORD,
    BATCHES_WORD,
    CURSOR_WORD,
    SAMPLE_AT,
    SAMPLES_WORD,
    SINCE_WORDS,
    STEPS_WORD,
    WORDS_AT,
    words_of,
)

ENDING: Final = -2
"""The awaited worker when no batch is left, so that this ``next`` will tear the iterator down."""

CPU_CLOCK_ABOVE_NS: Final = 100_000
"""A wait longer than this makes the next one read the thread's CPU clock at its beginning too.

The clock is a system call (about 400 ns, a tenth of what a hook may cost), and shorter waits need no explanation. So we do
not read it while batches are ready and the wait before was short, and the CPU time is unknown then.
"""

LOOK_EVERY: Final = 16
LOOK_WITHIN_NS: Final = 1_000_000_000
"""One of so many steps, and the first after so long a time, is looked at closely: where its input lies, when the first gradient
reaches the model's output, and how long the device takes for each phase.

Such a step costs some 20 µs more, where a device is timed some 45.
"""

MAX_PENDING: Final = 256
"""How many batches may have events that the device has not reached yet; beyond that the oldest is given up."""
READ_TOGETHER: Final = 8
READ_WITHIN_NS: Final = 100_000_000
"""So many batches, or those of so long a time, are read at once where steps are short: after a step nothing of what reads them is in
the processor's caches, and for one batch it would be brought there in vain."""
MAX_MARKS: Final = 32
"""How many seams of a step are marked at most; more are those of closures that call the model again and again."""


class Part(enum.IntEnum):
    """What the loop launches from a seam of the step on until the next one, in the order of the record's columns.

    The first ``PARTS`` have a column.
    """

    H2D = 0
    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER = 3
    OTHER = 4


PARTS: Final = 4
DRIFT_PPM: Final = 100
"""How far two clocks run apart at most: the crystals of host and device are each within some 50 ppm."""
JUMP_NS: Final = 1_000_000
"""By how much bounds may contradict each other: drift since the device reached what is seen only now, and rounding."""

NOTABLE_PAUSE_NS: Final = 1_000_000
"""The shortest pause of the collector that is recorded: young generations are collected hundreds of times a second, in microseconds."""

Reader = Callable[[Any], tuple[int, int, int]]
"""Reads an iterator: batches ready, batches cached out of order, the worker whose batch must come next."""


def nothing_to_read(iterator: Any) -> tuple[int, int, int]:
    """Read an iterator that does not tell how it stands."""
    return UNKNOWN, UNKNOWN, UNKNOWN


STEP_KIND: Final = int(RecordKind.STEP)
# the words of the open span that hold when each phase began:
WAIT: Final = SINCE_WORDS[Phase.WAIT]
STEP: Final = SINCE_WORDS[Phase.STEP]
FORWARD: Final = SINCE_WORDS[Phase.FORWARD]
BACKWARD: Final = SINCE_WORDS[Phase.BACKWARD]
OPTIMIZER: Final = SINCE_WORDS[Phase.OPTIMIZER]
TEARDOWN: Final = SINCE_WORDS[Phase.TEARDOWN]
IDLE: Final = SINCE_WORDS[Phase.IDLE]
FETCH: Final = SINCE_WORDS[Phase.FETCH]
COLLATE: Final = SINCE_WORDS[Phase.COLLATE]
_NOWHERE: Final = memoryview(bytearray(8 * (STEPS_WORD + 1))).cast("q")

# how a fetcher reads: one sample for each item of a list, all samples of a list at once, or one sample. Samples of an
# iterable dataset have no indices, so they are counted.
EACH: Final = 1
EACH_COUNTED: Final = 2
AT_ONCE: Final = 3
ONE: Final = 4
ONE_COUNTED: Final = 5

_CONSTANTS: Final[dict[str, int]] = {
    "ENDING": ENDING,
    "STEP": STEP_KIND,
    "SHORT_STEP": SHORT_STEP,
    "FETCH": RecordKind.FETCH,
    "GPU_WAIT": RecordKind.GPU_WAIT,
    "MAX_PENDING": MAX_PENDING,
    "READ_TOGETHER": READ_TOGETHER,
    "READ_WITHIN_NS": READ_WITHIN_NS,
    "MAX_MARKS": MAX_MARKS,
    "PARTS": PARTS,
    **{f"{part.name}_PART": part for part in Part},
    "DRIFT_PPM": DRIFT_PPM,
    "JUMP_NS": JUMP_NS,
    "SLOT_FIELDS": SLOT_FIELDS,
    "HEADER_BYTES": HEADER_BYTES,
    "CAPACITY": MAIN_CAPACITY,
    "WORDS_AT": WORDS_AT,
    "CURSOR_WORD": CURSOR_WORD,
    "BATCH_WORD": BATCH_WORD,
    "AWAITED_WORD": AWAITED_WORD,
    **{f"{phase.name}_WORD": SINCE_WORDS[phase] for phase in Phase},
    "BATCHES_WORD": BATCHES_WORD,
    "STEPS_WORD": STEPS_WORD,
    "SAMPLES_WORD": SAMPLES_WORD,
    "SAMPLE_WORD": (SAMPLE_AT - WORDS_AT) // 8,
    "CPU_CLOCK_ABOVE_NS": CPU_CLOCK_ABOVE_NS,
    "LOOK_EVERY": LOOK_EVERY,
    "LOOK_WITHIN_NS": LOOK_WITHIN_NS,
    "NOTABLE_PAUSE_NS": NOTABLE_PAUSE_NS,
    "EACH": EACH,
    "EACH_COUNTED": EACH_COUNTED,
    "AT_ONCE": AT_ONCE,
    "ONE": ONE,
    "ONE_COUNTED": ONE_COUNTED,
    # A record's fields by their place in its slot, where its number and its kind come first: STEP_LOADER.
    **{
        f"{kind.name}_{field.upper()}": place
        for kind in (RecordKind.STEP, RecordKind.FETCH, RecordKind.GPU_WAIT)
        for place, field in enumerate(RECORD_FIELDS[kind], 2)
    },
}
LAYOUT: Final = ", ".join(f"{name} = {int(value)}" for name, value in _CONSTANTS.items())
"""The layout that ``_hot.c`` is compiled for; a module that was compiled for another one is not used."""


def c_header() -> str:
    """Return the layout as a C header, for ``hatch_build.py``."""
    return f'enum {{ {LAYOUT} }};\n#define LAYOUT "{LAYOUT}"\n'


class InSpan:
    """Stores words of the open span."""

    __slots__ = ("_memory", "_words")

    @property
    def memory(self) -> Memory | None:
        """The memory of the ring that holds the open span; None if the words go nowhere."""
        return self._memory

    @memory.setter
    def memory(self, memory: Memory | None) -> None:
        self._memory = memory
        self._words = _NOWHERE if memory is None else words_of(memory)
