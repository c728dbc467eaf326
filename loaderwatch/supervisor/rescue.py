"""Saves data of a hung job before it is ended: stacks of all its processes and the recording."""

from __future__ import annotations

import http.client
import time
from pathlib import Path
from typing import Final

from loaderwatch.core.client import Client, ServerError, find_own_server
from loaderwatch.core.config import Settings
from loaderwatch.core.files import private_folder, write_atomically
from loaderwatch.supervisor.say import say
from loaderwatch.supervisor.stack_text import stacks_text

STACKS_WITHIN_S: Final = 10.0
RECORDED_S: Final = 600.0

_FAILURES: Final = (OSError, ServerError, http.client.HTTPException)


def save(client: Client, settings: Settings, run_id: str) -> list[Path]:
    """Take stacks of the run now, write them and its recording beside the data, and return the files.

    A failure is reported and does not prevent the end of the job.
    """
    folder = settings.data_dir / "hangs"
    name = f"{run_id}-{time.strftime('%Y%m%d-%H%M%S')}"
    files = []
    try:
        private_folder(folder)
        owner = client if settings.server else find_own_server(settings.data_dir, "owner") or client
        stacks, missing = owner.fresh_stacks(run_id, None, STACKS_WITHIN_S)
        file = folder / f"{name}.stacks.txt"
        write_atomically(file, f"{stacks_text([*stacks, *missing])}\n".encode("utf-8", "replace"))
        files.append(file)
    except _FAILURES as error:
        say("no-fresh-stacks", run=run_id, error=str(error))
    try:
        recording = client.recording(run_id, RECORDED_S)
        file = folder / f"{name}.lwrec"
        write_atomically(file, recording)
        files.append(file)
    except _FAILURES as error:
        say("no-recording", run=run_id, error=str(error))
    return files
