"""The supervisor's lines for people, on the stderr that it shares with the job."""

from __future__ import annotations

import os
from contextlib import suppress

from loaderwatch.core.message import Param, Text
from loaderwatch.core.printable import one_line
from loaderwatch.texts import in_own_language


def say(message: str, /, **params: Param) -> None:
    """Write a message as one line; a closed or blocked stderr is no reason to fail."""
    line = in_own_language("job-line", line=Text(message, params))
    with suppress(OSError):
        os.write(2, f"{one_line(line)}\n".encode("utf-8", "replace"))
