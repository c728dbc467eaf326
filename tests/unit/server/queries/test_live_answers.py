"""The table of a host's GPUs."""

from __future__ import annotations

from loaderwatch.core.answers import GpuProcess as Row
from loaderwatch.core.facts import GpuInfo, GpuProcess, GpuState
from loaderwatch.detect.translation import in_language
from loaderwatch.server.queries.live_answers import gpus_in, gpus_of
from loaderwatch.server.window.builder import WindowBuilder
from tests.fakes.runs import SECOND, T0, envelope

A = GpuInfo(gpu=0, uuid="GPU-a", name="NVIDIA H100", rank=0)
B = GpuInfo(gpu=1, uuid="GPU-b", name="NVIDIA H100")


def test_every_gpu_is_told_of_once_with_its_ranks_and_whoever_is_on_it() -> None:
    builder = WindowBuilder("run-1")
    ours = GpuProcess(pid=1000, rank=0, memory_bytes=3e9, sm_ratio=0.6, name="python", user="ada")
    others = GpuProcess(pid=77, memory_bytes=1e9)
    shared = GpuInfo(gpu=0, uuid="GPU-a", name="NVIDIA H100", rank=1)
    first = GpuState(gpu=0, utilization_ratio=0.7, throttle_reasons=0x40 | 0x4, processes=[ours, others])
    builder.add(envelope(1, gpus=[A, B, shared], gpu_states=[first, GpuState(gpu=1)]))
    builder.add(envelope(2, gpus=[A, B, shared]))
    (host,) = builder.window().hosts.values()
    one, two = gpus_of(host)
    assert (one.host, one.gpu, one.uuid, one.ranks, one.utilization_ratio) == (
        "host-a",
        0,
        "GPU-a",
        [0, 1],
        0.7,
    )
    assert one.slowed_by == ["hardware thermal slowdown"]  # a power cap set by software is no fault
    assert in_language(one, "zh").slowed_by == ["硬件温度降频"]
    assert one.looked_at == (T0 + SECOND) / 1e9
    assert one.processes == [
        Row(pid=1000, rank=0, memory_bytes=3e9, sm_ratio=0.6, name="python", user="ada"),
        Row(pid=77, rank=None, memory_bytes=1e9, sm_ratio=None, name=None, user=None),
    ]
    assert (two.gpu, two.ranks, two.processes, two.utilization_ratio) == (1, [], [], None)


def test_an_older_streamer_tells_which_gpus_there_are_and_no_more() -> None:
    builder = WindowBuilder("run-1")
    builder.add(envelope(1, gpus=[A]))
    (host,) = builder.window().hosts.values()
    (one,) = gpus_of(host)
    assert (one.ranks, one.looked_at, one.memory_used_bytes, one.processes) == ([0], None, None, [])


def test_a_late_envelope_does_not_bring_back_what_was() -> None:
    builder = WindowBuilder("run-1")
    builder.add(envelope(2, gpus=[A], gpu_states=[GpuState(gpu=0, utilization_ratio=0.2)]))
    builder.add(envelope(1, gpus=[A], gpu_states=[GpuState(gpu=0, utilization_ratio=0.9)]))
    (host,) = builder.window().hosts.values()
    assert [gpu.utilization_ratio for gpu in gpus_of(host)] == [0.2]


def test_one_host_or_the_first_few_can_be_asked_for() -> None:
    builder = WindowBuilder("run-1")
    for host in ("host-b", "host-a"):
        builder.add(envelope(1, stream=host, host=host, gpus=[A, B]))
    window = builder.window()

    def asked(host: str | None, limit: int | None) -> list[tuple[str, int]]:
        return [(gpu.host, gpu.gpu) for gpu in gpus_in(window, host, limit)]

    assert asked(None, None) == [("host-a", 0), ("host-a", 1), ("host-b", 0), ("host-b", 1)]
    assert asked("host-b", None) == [("host-b", 0), ("host-b", 1)]
    assert asked(None, 3) == [("host-a", 0), ("host-a", 1), ("host-b", 0)]
    assert asked("nowhere", 3) == []
