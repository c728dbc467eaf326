"""Tells the streamer where this thread's stack lies in memory, and lets it read that memory."""

from __future__ import annotations

import ctypes
import struct
import sys
import sysconfig
import threading
import types
from typing import Any, Final

from loaderwatch.core.environment_variables import READABLE
from loaderwatch.core.ring import PythonThread, RingWriter

_PTRACER: Final = 0x59616D61  # PR_SET_PTRACER of linux/prctl.h
_ANY: Final = ctypes.c_ulong(-1)


def permit_reading() -> None:
    """Let any process of this user read this process's memory, where the kernel has Yama.

    The permission is not given to the streamer alone: a process has only one such setting, and that would
    end the permission of a library such as UCX, whose ranks read each other's memory.
    """
    control = getattr(ctypes.CDLL(None), "prctl", None)
    if control is not None:
        control(_PTRACER, _ANY, 0, 0, 0)


def publish_thread(ring: RingWriter) -> None:
    """Publish the calling thread in the ring, if its Python is a usual 64-bit build with the GIL."""
    usual = (
        sys.implementation.name == "cpython"
        and struct.calcsize("P") == 8
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and not hasattr(sys, "gettotalrefcount")  # a debug build
    )
    if not usual:
        return
    if READABLE.read():
        permit_reading()
    # A prototype of our own: a change of ctypes.pythonapi's function would reach the script's own calls.
    current_state: Any = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThreadState_Get", ctypes.pythonapi))
    ring.set_thread(
        PythonThread(
            version=sys.version_info[:2],
            native_id=threading.get_native_id(),
            state=current_state(),
            code_type=id(types.CodeType),
        )
    )
