"""What the GPU says about idle time; without a GPU, what the loop says."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from loaderwatch.core.answers import Evidence, Text
from loaderwatch.core.facts import SWING_HIGH_RATIO, SWING_LOW_RATIO
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.finding import observed
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.statistics import mean, median, quantile
from loaderwatch.detect.window import RankWindow, seconds

SPINNING_RATIO: Final = threshold(
    0.95, "ratio", "NVML counts a waiting NCCL kernel as 100 % busy (yolov5#8398, Lightning#5865)"
)
LOW_POWER_RATIO: Final = threshold(
    0.5, "ratio", "chosen: by reports full utilization on a cool GPU is a hang (yolov5#8398)"
)
# The name of the data wait as evidence, by the clock that measured it.
STARVED: Final = {"device": "gpu-starved-on-its-stream", "nvml": "gpu-starved-by-nvml"}
FEW_TIMED: Final = threshold(
    3, "steps", "chosen: the device times one step of sixteen and one a second, so more would take long"
)


def device_phase_s(rank: RankWindow, phase: str, since_ns: int) -> float:
    """Return the device's median seconds in a phase since a time (ns UTC); NaN if it timed too few steps.

    ``phase``: h2d, forward, backward or optimizer. The loop's clock would only show the launches.
    """
    waits = rank.table("gpu_waits")
    spent_s = seconds(waits[f"gpu_{phase}_ns"][waits["request_ns"] >= since_ns])
    spent_s = spent_s[np.isfinite(spent_s)]
    return median(spent_s) if spent_s.size >= FEW_TIMED else math.nan


def gpu_evidence(pace: Pace) -> list[Evidence]:
    """Return the utilization and starvation of the rank's GPU over the pace, as evidence.

    Without a GPU it is the compute duty: the share of the time that is not lost to data wait.
    """
    began_ns = int(pace.request_ns[0])
    evidence = []
    gpus = pace.rank.table("gpus")
    utilization = gpus["utilization_ratio"][gpus["t_ns"] >= began_ns]
    average = mean(utilization)
    if math.isfinite(average):
        evidence.append(observed("gpu-utilization", average, "ratio"))
        high, low = quantile(utilization, 0.95), quantile(utilization, 0.05)
        if high >= SWING_HIGH_RATIO and low < SWING_LOW_RATIO:
            between = Text("evidence-between", {"low_percent": low * 100, "high_percent": high * 100})
            evidence.append(observed("gpu-swings-between", between, "text"))
    if pace.clock != "loop":
        evidence.append(observed(STARVED[pace.clock], pace.share, "ratio"))
    if not evidence:
        evidence.append(observed("compute-duty-no-gpu-seen", 1 - pace.loop_share, "ratio"))
    return evidence


def spins_in_collective(rank: RankWindow, since_ns: int) -> Text | None:
    """Return a message if the GPU shows full utilization at idle power: a kernel only spins. Else None.

    NVML counts a waiting NCCL kernel as 100 % busy; reports of "100 % utilization, cool GPU" are hangs
    (yolov5#8398, Lightning#5865).
    """
    gpus = rank.table("gpus")
    mask = gpus["t_ns"] >= since_ns
    utilization = mean(gpus["utilization_ratio"][mask])
    power, limit = mean(gpus["power_w"][mask]), mean(gpus["power_limit_w"][mask])
    if utilization >= SPINNING_RATIO and power <= LOW_POWER_RATIO * limit:
        percent = utilization * 100
        return Text(
            "gpu-blocked-in-collective",
            {"utilization_percent": percent, "power_w": power, "power_limit_w": limit},
        )
    return None
