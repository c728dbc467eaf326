"""Ranks that share a GPU: each row of the summary has it."""

from __future__ import annotations

import numpy as np

from loaderwatch.core.facts import GpuInfo
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.server.live.summary import summary_of
from loaderwatch.server.window.builder import WindowBuilder
from tests.fakes.runs import SECOND, T0, envelope, process, table


def test_each_rank_of_a_shared_gpu_has_its_number_and_its_readings() -> None:
    times = T0 + np.repeat(np.arange(50, 60), 2) * SECOND
    rows = table("gpus", rank=np.arange(20) % 2, gpu=0, t_ns=times, utilization_ratio=0.75)
    infos = [
        GpuInfo(gpu=number, uuid=f"GPU-{number}", name="H200", rank=0 if not number else None)
        for number in range(2)
    ]
    infos.append(GpuInfo(gpu=0, uuid="GPU-0", name="H200", rank=1))
    builder = WindowBuilder("run-1")
    builder.add(envelope(60, processes=[process(0, 2), process(1, 2)], gpus=infos, tables={"gpus": rows}))
    ranks = summary_of(RunEvidence(builder.window()), builder.totals(), state="live").ranks
    assert [(rank.rank, rank.gpu, rank.gpu_utilization_ratio) for rank in ranks] == [
        (0, 0, 0.75),
        (1, 0, 0.75),
    ]
