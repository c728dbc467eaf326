"""Tells the streamer where this thread's stack lies in memory, and lets it read that memory."""

from __future__ import annotations

import ctypes
import struct
import sys
import sysconfig
import threading
import types
from typing import Any

from loaderwatch.core.ring import PythonThread, RingWriter


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
