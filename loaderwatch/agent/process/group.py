"""What PyTorch says of the process group that all ranks are in: its backend, its patience, its flight recorder."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from loaderwatch.agent.guard import ask


def group_facts(environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """``backend``, ``collective_timeout_s`` and ``flight_dump`` of ``ProcessInfo``; each None where not known."""
    env = os.environ if environ is None else environ
    backend = timeout_s = dump = None
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        backend = str(distributed.get_backend())
        timeout_s = ask(lambda: _timeout_s(distributed, backend))
        prefix = env.get("TORCH_FR_DUMP_TEMP_FILE") or env.get("TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
        if prefix:  # PyTorch's default place changed with its versions, and jobs share it
            dump = f"{prefix}{distributed.get_rank()}"
    return {"backend": backend, "collective_timeout_s": timeout_s, "flight_dump": dump}


def _timeout_s(distributed: Any, backend: str) -> float | None:
    """PyTorch has no public question for it; this one has stood since 2.0, and its failing is only a fact less."""
    torch = sys.modules["torch"]
    device = torch.device("cuda" if "nccl" in backend else "cpu")
    timeout = distributed.group.WORLD._get_backend(device).options._timeout
    return timeout.total_seconds() if isinstance(timeout, timedelta) else None
