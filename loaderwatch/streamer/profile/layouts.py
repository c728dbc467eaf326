"""Where CPython keeps a thread's stack in memory: offsets in bytes, for 64-bit builds with the GIL.

Source: the structs of CPython's headers (``offsetof``), which do not change within a minor version. A version
that is not in the table is not read from outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Layout:
    """The offsets of one minor version."""

    # Of PyThreadState.
    previous_thread: int
    next_thread: int
    native_id: int | None  # the kernel's thread id; None: not kept (3.10)
    top: int  # the newest frame, or the address of the C frame that has it
    top_in_cframe: int | None  # within _PyCFrame; None: no C frame (3.10, 3.13)
    data_stack: int | None  # the newest chunk of frames; None: frames are objects (3.10)
    # Of the frame.
    code: int
    previous: int
    instruction: int  # a pointer; in 3.10 the number of the instruction
    owner: int  # a byte; in 3.10 the generator to which the frame belongs, or null
    # Of PyCodeObject.
    filename: int
    name: int
    first_line: int
    line_table: int
    instructions: int | None  # where the code begins; None: ``instruction`` is a number
    # Of str and bytes.
    ascii_text: int
    wide_text: int


LAYOUTS: Final[dict[tuple[int, int], Layout]] = {
    (3, 10): Layout(0, 8, None, 24, None, None, 32, 24, 96, 88, 104, 112, 40, 120, None, 48, 72),
    (3, 11): Layout(0, 8, 160, 56, 8, 296, 32, 48, 56, 69, 112, 120, 72, 136, 184, 48, 72),
    (3, 12): Layout(0, 8, 144, 56, 0, 232, 0, 8, 56, 70, 112, 120, 68, 136, 192, 40, 56),
    (3, 13): Layout(0, 8, 160, 72, None, 232, 0, 8, 56, 70, 112, 120, 68, 136, 200, 40, 56),
}
TEXT_LENGTH: Final = 16  # of str and bytes
TEXT_STATE: Final = 32  # of str
BYTES_DATA: Final = 32
OBJECT_TYPE: Final = 8
OWNED_BY_GENERATOR: Final = 1
OWNED_BY_C: Final = 3  # such a frame has no code
