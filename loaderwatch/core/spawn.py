"""Starting processes that outlive this one and hold nothing of it open."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from loaderwatch.core.files import opener, private_folder
from loaderwatch.core.system import DETACHED, HAS_OWNERS, OWN_GROUP


def spawn_detached(
    arguments: Sequence[str], log_path: Path, environ: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start ``python arguments…`` in a session of its own and without a console, its output appended to a log file.

    Raises:
        OSError: the log cannot be written or the process cannot be started.
    """
    private_folder(log_path.parent)
    with open(log_path, "ab", opener=opener) as log:
        return subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(os.environ if environ is None else environ),
            cwd=str(log_path.parent),  # python -m looks into the working directory first: not the user's
            start_new_session=True,
            umask=0o077 if HAS_OWNERS else -1,
            creationflags=DETACHED | OWN_GROUP,
        )
