"""Simulated loops that launch ahead of a device: the reported loss is the device's idle time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from tests.unit.detect.build import RankBuilder, S, loader, run

TOTAL_S = 32.0
LAUNCH_S = 0.001  # of the loop, for each pass
STEP_S = 0.09  # of the device
PREFETCH = 2
TIMED_EVERY = 8


@dataclass(frozen=True)
class Loop:
    """Batches take ``load_s``; every ``every`` steps the loop synchronizes, then works ``own_s``."""

    load_s: float = 0.02
    own_s: float = 0.0
    every: int = 10
    item: bool = False  # it waits for the device in each step
    reading_s: float = 0.5  # what NVML's utilization is a mean over

    def play(self) -> tuple[float, list[Finding]]:
        """The share of the time that the device was idle, and what is found."""
        rank = RankBuilder(loaders=[loader(num_workers=1, prefetch_factor=PREFETCH)])
        rank.has_model = rank.has_optimizer = True
        began_ns = rank.now_ns
        now = free = 0.0  # when the loop acts, and when the device is through
        made = [self.load_s * (n + 1) for n in range(PREFETCH)]  # when the batches to come are ready
        busy = []
        number = 0
        while now < TOTAL_S:
            asked, slack = now, max(0.0, free - now)
            ready = sum(at <= asked for at in made)
            now = max(now, made.pop(0))
            made.append(max(now, made[-1] if made else now) + self.load_s)
            reached = max(asked, free), max(now, free)
            delivered = now
            busy.append((max(now, free), max(now, free) + STEP_S))
            free = busy[-1][1]
            now += 2 * LAUNCH_S
            number += 1
            own = bool(self.own_s) and number % self.every == 0
            if own or self.item:
                now = max(now, free)
            now += self.own_s if own else 0.0
            rank.now_ns = began_ns + int(asked * S)
            timed = {
                "gpu_h2d_ns": 0,
                "gpu_forward_ns": int(STEP_S * S / 3),
                "gpu_backward_ns": int(STEP_S * S * 2 / 3),
            }
            rank.add(
                "gpu_waits", loader=0, request_ns=rank.now_ns, starved_ns=int((reached[1] - reached[0]) * S),
                gpu_step_ns=int((max(now, free) - reached[1]) * S), slack_ns=int(slack * S),
                **(timed if number % TIMED_EVERY == 0 else {}),
            )  # fmt: skip
            rank.step(
                delivered - asked, now - delivered, ready=ready, h2d_ns=0, forward_ns=int(LAUNCH_S * S),
                backward_ns=int(LAUNCH_S * S), optimizer_ns=0, optimizer_steps=1,
            )  # fmt: skip
        begins, ends = np.array(busy).T

        def worked(since: float, until: float) -> float:
            return float(np.clip(np.minimum(ends, until) - np.maximum(begins, since), 0, None).sum())

        for tenth in range(int(now * 10)):
            at = tenth / 10
            row = {
                "rank": 0,
                "gpu": 0,
                "other_pids": 0,
                "throttle_reasons": 0,
                "t_ns": began_ns + int(at * S),
            }
            used = worked(at - self.reading_s, at) / self.reading_s
            rank.rows["gpus"].append({**row, "utilization_ratio": min(1.0, used)})
        return 1 - worked(0, now) / now, detect(RunEvidence(run(rank)))


def told(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity != "info"]


@pytest.mark.parametrize("reading_s", [0.17, 0.5, 1.0])
@pytest.mark.parametrize(("own_s", "every"), [(0.06, 1), (0.8, 10), (1.5, 12), (0.8, 5), (1.0, 20), (0.3, 8)])
def test_own_work_costs_what_the_device_idles_for_it(own_s: float, every: int, reading_s: float) -> None:
    idle, found = Loop(own_s=own_s, every=every, reading_s=reading_s).play()
    (finding,) = told(found)
    assert (finding.code, finding.scenario) == ("gpu-sawtooth", "S26")
    assert "other work of the training loop" in finding.cause
    assert finding.gain_ceiling_ratio == pytest.approx(idle, abs=0.03)
    assert finding.severity == ("critical" if idle >= 0.3 else "warning")


@pytest.mark.parametrize("item", [False, True])
def test_a_slow_loader_costs_what_the_device_lacks(item: bool) -> None:
    idle, found = Loop(load_s=0.2, item=item).play()
    (finding,) = told(found)
    assert (finding.code, finding.severity) == ("input-bound", "critical")
    assert finding.gain_ceiling_ratio == pytest.approx(idle, abs=0.02)


@pytest.mark.parametrize(
    "loop",
    [
        Loop(),
        Loop(item=True),
        Loop(load_s=0.088),  # the loop waits nearly all of the time, the device never (N20)
        Loop(load_s=0.095),
        Loop(own_s=0.04, every=10),  # a long step by the loop's clock: it waits for the device in it
        Loop(own_s=0.2, every=40, load_s=0.08),
    ],
    ids=["ahead", "item", "busy-loader", "just-behind", "short-work", "rare-work"],
)
def test_what_costs_the_device_little_wakes_nobody(loop: Loop) -> None:
    idle, found = loop.play()
    assert idle < 0.1
    assert told(found) == []


def test_a_long_step_that_the_device_works_through_is_not_even_a_remark() -> None:
    """Ten steps are launched ahead, and the loop waits 0.7 s for them: that is no pause of the device."""
    idle, found = Loop(own_s=0.04, every=10).play()
    assert idle < 0.05
    assert [one.scenario for one in found if one.code == "slow-step"] == []
