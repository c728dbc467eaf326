"""Every GPU of a host with the processes on it, for ``GET /runs/{run}/gpus``."""

from __future__ import annotations

from itertools import islice

from loaderwatch.core import answers
from loaderwatch.core.facts import GpuState
from loaderwatch.core.from_records import from_records
from loaderwatch.detect.slow_step.weak_gpu import throttle_reasons
from loaderwatch.detect.window import HostWindow, RunWindow
from loaderwatch.texts import say


def gpus_in(window: RunWindow, host: str | None, limit: int | None) -> list[answers.Gpu]:
    """Return at most ``limit`` GPUs of one host.

    Without a host, return those of all hosts by name; of a large run, only of hosts kept in detail.
    """
    shown = window.ranks_by_host if window.summed and host is None else window.hosts
    hosts = sorted((name, window.hosts[name]) for name in shown if name in window.hosts)
    gpus = (gpu for name, window_of_host in hosts if host in (None, name) for gpu in gpus_of(window_of_host))
    return list(islice(gpus, limit))


def gpus_of(host: HostWindow) -> list[answers.Gpu]:
    """Return the host's GPUs in NVML's order, as of the last look."""
    states = {state.gpu: state for state in host.gpu_states}
    ranks: dict[int, list[int]] = {}
    for info in host.gpus:
        own = ranks.setdefault(info.gpu, [])
        if info.rank is not None:
            own.append(info.rank)
    gpus = []
    for info in host.gpus[: len(ranks)]:  # later entries are further ranks on the same GPUs
        state = states.get(info.gpu) or GpuState(gpu=info.gpu)
        slowed_by = throttle_reasons(state.throttle_reasons or 0)
        gpus.append(
            from_records(
                answers.Gpu,
                info,
                state,
                host,
                host=host.info.name,
                ranks=ranks[info.gpu],
                slowed_by=[say(reason) for reason in slowed_by],
                slowed_by_texts=slowed_by,
                processes=[from_records(answers.GpuProcess, process) for process in state.processes],
            )
        )
    return gpus
