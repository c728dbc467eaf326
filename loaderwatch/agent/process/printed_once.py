"""Lines about the job and its environment that only the first of its ranks and child processes prints."""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from loaderwatch.agent.guard import say, shield
from loaderwatch.agent.process.identity import facts_on_host
from loaderwatch.core import environment_variables as variables
from loaderwatch.core.config import load_settings
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.files import opener, own_folder, temporary_folder

KEPT_S: Final = 86_400.0
"""After so many seconds the mark of a line is removed: no job takes longer to start its ranks."""
_PREFIX: Final = "said-"


def say_once(line: str) -> None:
    """Write one line to the job's stderr, unless this or another process of the job on this host wrote it."""
    if not shield(_was_said)(line):  # a fault in the check costs at most one repeated line
        say(line)


def _was_said(line: str) -> bool:
    job = variables.JOB.read() or "\0".join(facts_on_host(os.environ))
    name = _PREFIX + hashlib.sha256(f"{job}\0{line}".encode(errors="replace")).hexdigest()[:24]
    for folder in _folders():
        with suppress(OSError):  # the folder's disk is full, or the folder belongs to somebody else
            mark = own_folder(folder) / name
            try:
                os.close(opener(str(mark), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return True
            _remove_old(folder)
            return False
    return False


def _folders() -> list[Path]:
    """Return the folders for marks, the same in all processes of a job."""
    folders = [temporary_folder() / f"loaderwatch-said-{os.getuid() if hasattr(os, 'getuid') else 0}"]
    with suppress(ConfigError):
        folders.insert(0, load_settings().rings_dir)
    return folders


def _remove_old(folder: Path) -> None:
    with suppress(OSError):
        for mark in folder.glob(f"{_PREFIX}*"):
            if time.time() - mark.stat().st_mtime > KEPT_S:
                mark.unlink(missing_ok=True)
