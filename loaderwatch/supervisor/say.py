"""Lines of the supervisor for people, on the stderr that it shares with the job."""

from __future__ import annotations

import os
from contextlib import suppress

from loaderwatch.core.printable import one_line


def say(text: str) -> None:
    """Write one line; a stderr that is closed or takes nothing is no reason to fail."""
    with suppress(OSError):
        os.write(2, f"loaderwatch: {one_line(text)}\n".encode("utf-8", "replace"))
