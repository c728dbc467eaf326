"""``python attached.py SCRIPT [ARGS...]``: the script as it is, after ``loaderwatch.attach()``."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import loaderwatch

if __name__ == "__main__":
    loaderwatch.attach()
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
