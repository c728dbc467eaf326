"""Plausible runs for every state of the page, made from formulas, so that tests need no training or wait.

The shapes are those of docs/http-api.md. Numbers are not measured; they only have to look and move plausibly.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

HANG_STACK = """Thread 0x00007f2b4d7fa700 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
  File "/usr/lib/python3.11/threading.py", line 622 in wait

Current thread 0x00007f2b6e3c1740 (most recent call first):
  File "/usr/lib/python3.11/socket.py", line 706 in readinto
  File "/usr/lib/python3.11/site-packages/urllib3/response.py", line 879 in _raw_read
  File "/home/ada/train/data/archive.py", line 88 in read_member
  File "/home/ada/train/data/dataset.py", line 41 in __getitem__
  File "/usr/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py", line 54 in <listcomp>
  File "/usr/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py", line 54 in fetch
  File "/usr/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 360 in _worker_loop
"""
MAIN_STACK = """Current thread 0x00007f2b6e3c1740 (most recent call first):
  File "/usr/lib/python3.11/multiprocessing/connection.py", line 936 in wait
  File "/usr/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1275 in _try_get_data
  File "/usr/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1448 in _next_data
  File "/home/ada/train/train.py", line 132 in train_one_epoch
  File "/home/ada/train/train.py", line 201 in main
"""


@dataclass
class FakeRun:
    """One run: who takes part, since when, and how its numbers move."""

    run_id: str
    name: str
    state: str
    age_s: float
    ranks: int = 2
    workers: int = 4
    hosts: list[str] = field(default_factory=lambda: ["gpu01"])
    gpu: str = "simulated"  # "simulated" | "real" | "none"
    device: bool = False  # CUDA events tell of its waits
    phases: bool = True
    frozen_at: float | None = None  # seconds of the run after which nothing moves
    ended_at: float | None = None
    lost_records: int = 0
    epoch_s: float = 55.0
    starved: tuple[float, float] | None = None  # seconds of the run with too few workers
    slow_rank: int | None = None
    findings: list[Json] = field(default_factory=list)
    verdict: Json | None = None
    exit: str | None = None
    earlier: list[Json] = field(default_factory=list)  # attempts
    unwatched: tuple[int, ...] = ()  # ranks where the hooks have stepped aside
    t0: float = 0.0

    def now(self, wall: float) -> float:
        """The newest moment there is data for."""
        stops = [s for s in (self.frozen_at, self.ended_at) if s is not None]
        return min([wall, *(self.t0 + s for s in stops)])

    def parts(self, rank: int, t: float) -> dict[str, float]:
        """What one step at time ``t`` consists of, in seconds."""
        age = t - self.t0
        noise = random.Random(int(t * 10) * 1009 + rank).random()
        wait = 0.0012 + 0.0008 * noise
        if self.starved and self.starved[0] <= age < self.starved[1]:
            wait = 0.045 + 0.035 * (math.sin(age * 0.9 + rank) > 0.1) + 0.01 * noise
        if self.slow_rank == rank and age > 60:
            wait = 0.09 + 0.03 * noise
        if age % self.epoch_s < 1.5:
            wait += 0.35
        return {
            "wait_s": wait,
            "h2d_s": 0.002 + 0.0004 * noise,
            "forward_s": 0.014 + 0.002 * noise,
            "backward_s": 0.026 + 0.003 * noise,
            "optimizer_s": 0.005 + 0.0006 * noise,
            "other_s": 0.003 + 0.001 * noise,
        }

    def value(self, metric: str, rank: int, t: float) -> float | None:
        """One metric at one moment; None where this run has no such thing."""
        if not self.t0 <= t:
            return None
        parts = self.parts(rank, t)
        busy = sum(parts.values()) - parts["wait_s"]
        iteration = parts["wait_s"] + busy
        lost = (0.9 if self.device else 1.0) * parts["wait_s"]
        share = lost / iteration
        noise = random.Random(int(t * 7) * 31 + rank).random()
        if metric in parts:
            if not self.phases and metric in ("h2d_s", "forward_s", "backward_s", "optimizer_s"):
                return None
            return busy if not self.phases and metric == "other_s" else parts[metric]
        ready = 0.2 * noise if share > 0.3 else self.workers * 2 - 2 * noise
        if metric in ("gpu_starved_s", "gpu_h2d_s", "gpu_forward_s", "gpu_backward_s", "gpu_optimizer_s"):
            if not self.device:
                return None
            return lost if metric == "gpu_starved_s" else 1.05 * parts[metric.removeprefix("gpu_")]
        if metric == "gpu_starved_ratio":
            return share if self.device else None
        if metric.startswith("gpu_"):
            if self.gpu == "none" or (self.gpu == "real" and 200 < t - self.t0 < 215):
                return None
            return {
                "gpu_utilization_ratio": max(0.0, min(1.0, 1 - share - 0.06 * noise)),
                "gpu_power_w": 95 + 220 * (1 - share) + 8 * noise,
                "gpu_memory_ratio": 0.61,
                "gpu_process_memory_bytes": 4.6e10,
                "gpu_process_sm_ratio": max(0.0, 0.97 - share),
                "gpu_temperature_c": 58 + 9 * (1 - share),
                "gpu_pcie_rx_bytes_per_s": 2.1e9 * (1 - share),
                "gpu_pcie_tx_bytes_per_s": 1.2e8 * noise,
                "gpu_throttled_ratio": 0.0,
                "gpu_slowed_hardware_ratio": 0.0,
                "gpu_slowed_software_thermal_ratio": 0.3 + 0.4 * noise if 60 < t - self.t0 < 100 else 0.0,
                "gpu_slowed_hardware_thermal_ratio": 0.0,
                "gpu_slowed_hardware_power_brake_ratio": 0.0,
                "gpu_slowed_power_cap_ratio": 0.5 * noise,
            }.get(metric, 1.98e9 - 6e8 * share)
        cpu = 0.35 + 0.4 * share + 0.1 * noise
        return {
            "step_s": busy,
            "data_wait_s": lost,
            "iteration_s": iteration,
            "data_wait_ratio": share,
            "compute_duty_ratio": 1 - share,
            "steps_per_s": 1 / iteration,
            "samples_per_s": 64 / iteration,
            "others_wait_s": 0.5 * parts["backward_s"] if self.slow_rank not in (None, rank) else None,
            "ready_batches": ready,
            "cushion_s": ready * (iteration - lost),
            "slack_s": (0.004 if share > 0.3 else 0.11 + 0.03 * noise) if self.device else None,
            "cached_batches": noise,
            "fetch_s": 0.12 + 0.05 * noise,
            "host_cpu_ratio": cpu,
            "host_psi_cpu_ratio": 0.1 * noise,
            "host_psi_io_ratio": 0.5 * share + 0.05 * noise,
            "host_psi_memory_ratio": 0.0,
            "host_throttled_ratio": 0.0,
            "host_memory_available_bytes": 41e9 + 1e9 * noise,
            "host_shm_used_ratio": 0.12 + 0.01 * noise,
            "host_disk_read_bytes_per_s": 2.2e8 * (0.6 + noise),
            "process_cpu_ratio": 0.98 - 0.5 * share,
            "process_rss_bytes": 2.4e9,
            "worker_cpu_ratio": 0.4 + 0.3 * noise,
            "worker_rss_bytes": 3.1e8 + 2e7 * noise,
        }.get(metric)


def finding(number: int, run: FakeRun, **fields: Any) -> Json:
    """A finding with every field of the contract; times are seconds of the run."""
    base: Json = {
        "id": f"{run.run_id}-{number}", "key": f"k{number}", "code": "input-bound", "scenario": "S02",
        "severity": "warning", "state": "firing", "confidence": 0.92, "rank": None, "host": None,
        "loader": None, "worker": None,
        "pid": None, "sample_indices": [], "began_at": 0.0, "ended_at": None, "title": "", "cause": "",
        "advice": "", "evidence": [], "lost_s": None, "gain_ceiling_ratio": None, "stacks": [], "folded": [],
        "silenced_until": None,
    }  # fmt: skip
    base.update(fields)
    base["began_at"] += run.t0
    if base["ended_at"] is not None:
        base["ended_at"] += run.t0
    return base


def _digits(t0: float) -> FakeRun:
    run = FakeRun(
        "digits-cnn-7f3a", "digits_cnn.py", "live", 480, workers=2, starved=(250, 1e9), device=True, t0=t0
    )
    run.findings = [
        finding(
            3, run, began_at=252, rank=1, host="gpu01", lost_s=71.2, gain_ceiling_ratio=0.38,
            title="Training waits 54 % of the time for data: 2 workers cannot keep up",
            cause="Every second batch arrives late, and no batch is ready when the loop asks for one. "
            "Two workers need 126 ms per batch, the step needs 51 ms.",
            advice="Raise num_workers from 2 to 5 (8 usable CPUs on gpu01), and keep "
            "persistent_workers=True.",
            evidence=[
                {"label": "data wait", "value": 0.541, "unit": "ratio"},
                {"label": "period of long waits", "value": 2, "unit": "count"},
                {"label": "batches ready at entry", "value": 0.04, "unit": "count"},
                {"label": "thread CPU inside the wait", "value": 0.012, "unit": "ratio"},
                {"label": "fetch time per batch", "value": 0.126, "unit": "s"},
                {"label": "step time", "value": 0.051, "unit": "s"},
            ],
        ),
        finding(
            2, run, began_at=110, ended_at=112.4, state="resolved", code="epoch-boundary", scenario="S28",
            lost_s=9.8,
            gain_ceiling_ratio=0.04, title="Each epoch starts with 1.4 s of waiting for new workers", rank=0,
            host="gpu01",
            cause="The workers are started anew for each epoch, and the first batch waits for them.",
            advice="Set persistent_workers=True on train_loader.",
            evidence=[
                {"label": "worker start", "value": 0.42, "unit": "s"},
                {"label": "first batch", "value": 0.98, "unit": "s"},
                {"label": "epochs", "value": 8, "unit": "count"},
            ],
        ),
        finding(
            1, run, began_at=171, ended_at=176, state="acknowledged", severity="info", code="slow-sample",
            scenario="S13",
            title="Sample 1204 takes 38 times longer than the median", rank=1, worker=1, pid=4731,
            sample_indices=[1204],
            host="gpu01", lost_s=2.1, cause="One image is 48 megapixels and is decoded in full.",
            advice="Resize it once on disk: dataset[1204].",
            evidence=[{"label": "slowest sample", "value": 1.9, "unit": "s"}],
        ),
    ]  # fmt: skip
    return run


def _frozen(t0: float) -> FakeRun:
    run = FakeRun("frozen-loader-11c2", "train.py", "hung", 400, gpu="real", workers=4, frozen_at=340, t0=t0)
    stack = {
        "rank": 1,
        "worker": 2,
        "pid": 31877,
        "taken_at": t0 + 352,
        "text": HANG_STACK,
        "why": "open span",
    }
    main = {
        "rank": 1,
        "worker": -1,
        "pid": 31820,
        "taken_at": t0 + 352,
        "text": MAIN_STACK,
        "why": "open span",
    }
    run.findings = [
        finding(
            1, run, began_at=340, code="hung", scenario="S22", severity="critical", rank=1, host="gpu01",
            worker=2, pid=31877, sample_indices=[18432], lost_s=60.0, stacks=[stack, main],
            title="Rank 1 has been frozen for 60 s: worker 2 does not return from sample 18432",
            cause="Worker 2 (pid 31877) has been inside dataset[18432] for 60 s, waiting on a socket. "
            "No counter of rank 1 moved since; rank 0 waits for it in the collective.",
            advice="Give the download a timeout (archive.py:88), and set timeout=120 on the loader so that "
            "this ends with an error.",
            evidence=[
                {"label": "no batch for", "value": 60.0, "unit": "s"},
                {"label": "learned limit", "value": 10.0, "unit": "s"},
                {"label": "sample", "value": 18432, "unit": "index"},
                {"label": "process state", "value": "S (sleeping)", "unit": "text"},
                {"label": "kernel wait", "value": "sk_wait_data", "unit": "text"},
            ],
            folded=[
                {
                    "key": "input-bound:0:spikes", "code": "input-bound", "scenario": "S20",
                    "severity": "warning",
                    "title": "Rank 1 lost 64 s waiting for data: dataset[18432] took 60 s in worker 2"
                    " while finished batches waited behind it.",
                    "evidence": [
                        {"label": "long waits", "value": 3, "unit": "count"},
                        {"label": "longest wait", "value": 60.0, "unit": "s"},
                    ],
                    "began_at": t0 + 338, "warned_s": 22.0,
                },
            ],
        )
    ]  # fmt: skip
    return run


def _imagenet(t0: float) -> FakeRun:
    hosts = [f"node{n:02d}" for n in range(32)]
    run = FakeRun(
        "imagenet-256-0a9d",
        "imagenet.py",
        "live",
        900,
        ranks=256,
        hosts=hosts,
        gpu="real",
        slow_rank=37,
        unwatched=(255,),
        t0=t0,
    )
    run.findings = [
        finding(
            1, run, began_at=64, rank=37, host="node04", code="straggler", scenario="S43", lost_s=412.0,
            gain_ceiling_ratio=0.61, title="Rank 37 delivers data late and holds up 255 others",
            cause="Only rank 37 waits for data (68 %); all others wait for it in the collective.",
            advice="Look at node04: its disk is read at 1/6 of the speed of the other hosts.",
            evidence=[{"label": "data wait of rank 37", "value": 0.68, "unit": "ratio"}],
        )
    ]  # fmt: skip
    return run


XSS = "<img src=x onerror=alert(1)><script>alert(2)</script>"


def _xss(t0: float) -> FakeRun:
    run = FakeRun(
        "xss-0001",
        f"train {XSS}.py",
        "live",
        120,
        ranks=1,
        hosts=[f"host{XSS}"],
        gpu="none",
        starved=(0, 1e9),
        t0=t0,
    )
    stack = {
        "rank": 0, "worker": 0, "pid": 7, "taken_at": t0 + 50, "why": f"requested {XSS}",
        "text": f'Current thread 0x1 (most recent call first):\n  File "/tmp/{XSS}.py", line 3 in {XSS}\n',
    }  # fmt: skip
    run.findings = [
        finding(1, run, title=f"Data wait {XSS}", cause=XSS, advice=XSS, began_at=20, rank=0, host=XSS,
                stacks=[stack],
                folded=[{"key": XSS, "code": XSS, "scenario": XSS, "severity": XSS, "title": XSS,
                         "began_at": t0, "warned_s": None,
                         "evidence": [{"label": XSS, "value": XSS, "unit": "text"}]}],
                evidence=[{"label": XSS, "value": XSS, "unit": "text"}])
    ]  # fmt: skip
    return run


def make_runs(now: float) -> list[FakeRun]:
    """Runs in every state, newest first."""
    lost = FakeRun(
        "resnet-lost-51aa",
        "resnet.py",
        "lost",
        3000,
        gpu="real",
        lost_records=18_204,
        ended_at=900,
        t0=now - 3000,
    )
    crashed = FakeRun(
        "vit-crashed-90fe", "vit_small.py", "crashed", 5400, ended_at=1260, exit="SIGKILL", t0=now - 5400
    )
    healthy = FakeRun(
        "healthy-3b1e",
        "mnist.py",
        "finished",
        7600,
        ranks=1,
        gpu="none",
        phases=False,
        ended_at=700,
        t0=now - 7600,
    )
    return [
        _xss(now - 120),
        _frozen(now - 400),
        _digits(now - 480),
        _imagenet(now - 900),
        lost,
        crashed,
        healthy,
    ]
