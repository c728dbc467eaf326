"""An uninterruptible wait (state D) without a dead mount: the parent of a ``vfork`` waits for its child."""

from __future__ import annotations

import ctypes
import signal
from typing import Final

_CLONE_VM: Final = 0x100
_CLONE_VFORK: Final = 0x4000
_STACK_BYTES: Final = 1 << 16


def wait_in_kernel(seconds: int) -> None:
    """Put the calling thread into state D for so long, as a read from a mount that does not answer would.

    The child has a stack of its own and runs nothing but ``sleep`` of the C library.
    """
    library = ctypes.CDLL(None)
    library.clone.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
    stack = ctypes.create_string_buffer(_STACK_BYTES)
    top = ctypes.addressof(stack) + _STACK_BYTES
    sleep = ctypes.cast(library.sleep, ctypes.c_void_p)
    library.clone(sleep, top - top % 16, _CLONE_VM | _CLONE_VFORK | signal.SIGCHLD, seconds)
