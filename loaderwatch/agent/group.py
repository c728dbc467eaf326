"""What PyTorch says of the process group that all ranks are in: its backend, its patience, its flight recorder."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
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
        if _records_flight(env):
            dump = f"{_dump_prefix(env)}{distributed.get_rank()}"
    return {"backend": backend, "collective_timeout_s": timeout_s, "flight_dump": dump}


def _timeout_s(distributed: Any, backend: str) -> float | None:
    """PyTorch has no public question for it; this one has stood since 2.0, and its failing is only a fact less."""
    torch = sys.modules["torch"]
    device = torch.device("cuda" if "nccl" in backend else "cpu")
    timeout = distributed.group.WORLD._get_backend(device).options._timeout
    return timeout.total_seconds() if isinstance(timeout, timedelta) else None


def _records_flight(env: Mapping[str, str]) -> bool:
    """Whether somebody asked for dumps; newer versions record without being asked, but then dump to a shared default place."""
    names = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
    return any(env.get(name, "0").strip() not in ("", "0") for name in names)


def _dump_prefix(env: Mapping[str, str]) -> str:
    """Where PyTorch writes the dump of a rank, without the rank (c10d's ``DebugInfoWriter``)."""
    for name in ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"):
        if env.get(name):
            return env[name]
    torch = str(getattr(sys.modules.get("torch"), "__version__", "")).split("+")[0].split(".")
    new = [int(part) for part in torch[:2] if part.isdigit()] >= [2, 8]
    if not new:
        return "/tmp/nccl_trace_rank_"
    cache = env.get("XDG_CACHE_HOME") or str(Path(env.get("HOME", "/tmp")) / ".cache")
    return f"{cache}/torch/comm_lib_trace_rank_"
