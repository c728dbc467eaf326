"""The hot path's layout (the ring words that it writes) and its thresholds."""

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
"""The awaited worker if no batch is left: this ``next`` will tear the iterator down."""

CPU_CLOCK_ABOVE_NS: Final = 100_000
"""After a wait longer than this, the next wait reads the thread's CPU clock at its beginning, too.

The clock is a system call: about 400 ns, a tenth of what a hook may cost. Shorter waits need no explanation.
While batches are ready and the previous wait was short, the clock is not read and the CPU time is unknown.
"""

LOOK_EVERY: Final = 16
LOOK_WITHIN_NS: Final = 1_000_000_000
"""The closely observed steps: one of ``LOOK_EVERY``, and the first after ``LOOK_WITHIN_NS`` without one.

They show on which device the input is, when the first gradient reaches the model's output, and how long the
device takes for each phase. Such a step costs about 20 µs more, or 45 µs where a device is timed.
"""

MAX_PENDING: Final = 256
"""Most batches with events that the device has not reached yet; beyond this the oldest batch is dropped."""
READ_TOGETHER: Final = 8
READ_WITHIN_NS: Final = 100_000_000
"""In short steps, events of so many batches or so much time are read at once: a step leaves caches cold."""
MAX_MARKS: Final = 32
"""Most marks in one step. A closure that calls the model again and again would set more."""


class Part(enum.IntEnum):
    """A part of a step, launched between two marks. The first ``PARTS`` are record columns, in this order."""

    H2D = 0
    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER = 3
    OTHER = 4


PARTS: Final = 4
DRIFT_PPM: Final = 100
"""Largest drift between two clocks: the crystals of host and device are each accurate to about 50 ppm."""
JUMP_NS: Final = 1_000_000
"""Tolerated contradiction between two bounds, in ns: rounding, and drift between an event and its query."""

NOTABLE_PAUSE_NS: Final = 1_000_000
"""Shortest recorded pause of the collector: hundreds of young collections a second take microseconds each."""

Reader = Callable[[Any], tuple[int, int, int]]
"""Reads an iterator's state: batches ready, batches cached out of order, worker of the next batch."""


def nothing_to_read(iterator: Any) -> tuple[int, int, int]:
    """Return an unknown state, for iterators that do not show it."""
    return UNKNOWN, UNKNOWN, UNKNOWN


STEP_KIND: Final = int(RecordKind.STEP)
# Words of the open span: when each phase began.
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

# How a fetcher reads: one sample per list item, all samples of a list at once, or one sample. Samples of an
# iterable dataset have no index, so they are counted.
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
    # The place of each record field in its slot, such as STEP_LOADER. Number and kind come first.
    **{
        f"{kind.name}_{field.upper()}": place
        for kind in (RecordKind.STEP, RecordKind.FETCH, RecordKind.GPU_WAIT)
        for place, field in enumerate(RECORD_FIELDS[kind], 2)
    },
}
LAYOUT: Final = ", ".join(f"{name} = {int(value)}" for name, value in _CONSTANTS.items())
"""The layout that ``_hot.c`` is compiled for. A module compiled for another layout is not used."""


def c_header() -> str:
    """Return the layout as a C header, for ``hatch_build.py``."""
    return f'enum {{ {LAYOUT} }};\n#define LAYOUT "{LAYOUT}"\n'


class InSpan:
    """Writes words of the open span."""

    __slots__ = ("_memory", "_words")

    @property
    def memory(self) -> Memory | None:
        """The memory of the ring that holds the open span; None if the words go nowhere."""
        return self._memory

    @memory.setter
    def memory(self, memory: Memory | None) -> None:
        self._memory = memory
        self._words = _NOWHERE if memory is None else words_of(memory)
