"""Real trainings on systems that lack features of Linux, and on a PyTorch with other private names.

Missing features are removed from every process of these tests (``tests/fakes/other_system``).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from loaderwatch.core.config import load_settings
from loaderwatch.detect.measures.time_use import RECENT_S
from tests.fakes.serving import Access
from tests.fakes.streaming import Streaming, wait_for
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="takes Linux apart")

FAKE = Path(__file__).resolve().parents[1] / "fakes" / "other_system"
BATCHES = 60

SCRIPT = f"""
import json, sys, time
from pathlib import Path
import torch
import loaderwatch

WORKERS, READ_S, MEASURED = int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 4 * {BATCHES}

    def __getitem__(self, index):
        time.sleep(READ_S / 4 * max(WORKERS, 1))
        return torch.full((4,), float(index))

def main():
    loader = loaderwatch.attach(torch.utils.data.DataLoader(Samples(), batch_size=4, num_workers=WORKERS))
    assert type(loader).__name__ == "DataLoader" and len(loader) == {BATCHES}
    any(loaderwatch.url() for _ in range(6))  # the page comes up, however busy this machine is
    total, steps = 0.0, []
    batches = iter(loader)
    while True:
        asked = time.time()
        batch = next(batches, None)
        if batch is None:
            break
        given = time.time()
        time.sleep(READ_S)
        total += float(batch.sum())
        steps.append((asked, given, time.time()))
    MEASURED.write_text(json.dumps(steps))
    try:
        loaderwatch.attach(loader, role="no role")
    except ValueError as error:
        print(error)
    from loaderwatch.agent.guard import guard
    print("total", total, "faults", guard.faults, guard.last)

if __name__ == "__main__":
    main()
"""

UNKNOWN = {
    "macos": (
        *("host_psi_cpu_ratio", "host_psi_io_ratio", "host_psi_memory_ratio", "host_throttled_ratio"),
        *("host_shm_used_ratio", "host_disk_read_bytes_per_s", "gpu_utilization_ratio", "ready_batches"),
    ),
    "windows": (
        *("host_psi_cpu_ratio", "host_psi_io_ratio", "host_psi_memory_ratio", "host_throttled_ratio"),
        *("host_shm_used_ratio", "host_disk_read_bytes_per_s", "gpu_utilization_ratio"),
    ),
    "torch": ("ready_batches", "cached_batches", "gpu_utilization_ratio"),
}
KNOWN = (
    *("host_cpu_ratio", "host_memory_available_bytes", "process_cpu_ratio", "process_rss_bytes"),
    *("wait_s", "step_s", "fetch_s"),
)


def _train(it: Streaming, script: Path, workers: int, read_s: float) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(script), str(workers), str(read_s), str(script.with_name("measured"))]
    return subprocess.run(
        command, env=it.environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def _waited(steps: list[tuple[float, float, float]], until: float) -> float | None:
    """The share of waiting in waiting and work, in the ``RECENT_S`` before ``until``; None without either."""

    def within(begin: float, end: float) -> float:
        return max(0.0, min(end, until) - max(begin, until - RECENT_S))

    waited = sum(within(asked, given) for asked, given, _ in steps)
    worked = sum(within(given, done) for _, given, done in steps)
    return waited / (waited + worked) if waited + worked else None  # it took longer than that to end


def _means(access: Access, metric: str) -> list[float | None]:
    found: list[float | None] = access.get("/runs/train/series", metric=metric)["mean"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "workers", "plain"),
    [
        ("macos", 0, True),
        ("windows", 2, True),
        *(
            pytest.param(*other, marks=pytest.mark.long)
            for other in [
                ("macos", 2, True),
                ("windows", 0, True),
                ("torch", 0, False),
                ("torch", 2, False),
                ("torch", 2, True),
            ]
        ),
    ],
)
def test_a_training_is_watched(
    data_dir: Path, tmp_path: Path, system: str, workers: int, plain: bool
) -> None:
    """The output is as without us, stderr has the address, and the page the right waits, nothing made up."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    root = FAKE.parents[2]
    more = {"OTHER_SYSTEM": system, "PYTHONPATH": f"{FAKE}:{root}", "LOADERWATCH_RUN": "train"}
    if plain:
        more["LOADERWATCH_PLAIN"] = "1"
    with Streaming(data_dir, None, **more) as it:
        del it.environ["LOADERWATCH_TOKEN"]
        it.environ["LOADERWATCH_DISABLE"] = "1"
        # With spawned workers on a busy machine Python warns, with or without us, that semaphores leaked.
        it.environ["PYTHONWARNINGS"] = "ignore::UserWarning:multiprocessing.resource_tracker"
        alone = _train(it, script, 0, 0.0)
        assert alone.returncode == 0, alone.stderr
        del it.environ["LOADERWATCH_DISABLE"]
        watched = _train(it, script, workers, 0.02)
        shown = watched.stdout.splitlines()
        assert shown.pop(0) == "role is 'no role' (str); use 'train' or 'eval'"
        assert (watched.returncode, shown) == (0, alone.stdout.splitlines()), watched.stderr + it.log()
        said = watched.stderr.splitlines()
        assert [line for line in said if not line.startswith("loaderwatch: ")] == alone.stderr.splitlines()
        settings = load_settings(it.environ)
        assert settings.server_path.exists(), it.log() + (settings.logs_dir / "server.log").read_text()
        where = json.loads(settings.server_path.read_bytes())
        assert f"loaderwatch: watching train — open {where['viewer_url']}" in said

        tokens = json.loads(settings.token_path.read_bytes())
        access = Access(where["url"], tokens["agent"], tokens["viewer"], tokens["owner"])
        wait_for(lambda: [run["state"] for run in access.get("/runs")] == ["finished"])
        wait_for(lambda: not it.streamer_pids())
        summary = access.get("/runs/train/summary")
        assert summary["steps"] == BATCHES
        (rank,) = summary["ranks"]
        measured = _waited(json.loads(script.with_name("measured").read_text()), rank["seen_at"])
        if measured is None:
            assert summary["data_wait_ratio"] is None
        else:
            assert summary["data_wait_ratio"] == pytest.approx(measured, abs=0.05), measured
        print(json.dumps(summary)[:3000])
        print(json.dumps(access.get("/runs/train/workers"))[:1500])
        for metric in KNOWN:
            values = [value for value in _means(access, metric) if value is not None]
            assert values, metric
            assert min(values) > 0 or metric == "process_cpu_ratio", metric  # which slept for a second
        for metric in UNKNOWN[system]:
            assert set(_means(access, metric)) <= {None}, metric
        rss = [value for value in _means(access, "worker_rss_bytes") if value is not None]
        assert bool(rss) == bool(workers)
        log = it.log()
        assert "Traceback" not in log, log
        assert not list((data_dir / "rings").glob("*"))
