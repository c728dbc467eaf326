"""The environment variables that bound the threads of numeric libraries."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "TOKENIZERS_PARALLELISM",
)


def thread_limits(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Those that are set, with their values."""
    env = os.environ if environ is None else environ
    return {name: env[name][:40] for name in THREAD_VARIABLES if env.get(name)}
