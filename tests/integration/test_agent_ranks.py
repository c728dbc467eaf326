"""Real gloo ranks: how long each is in the collectives of its DDP model, measured by the hooks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from loaderwatch.core.records import RecordKind
from tests.conftest import RingFolder
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.usefixtures("data_dir", "no_streamer"), pytest.mark.timeout(900)]

SCRIPT = """
import datetime, gc, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch

torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=7))
slow = dist.get_rank() == 1
layers = [torch.nn.Linear(4, 2), *([torch.nn.BatchNorm1d(2)] if "--buffers" in sys.argv else [])]
model = DistributedDataParallel(torch.nn.Sequential(*layers))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=4)
loaderwatch.attach(loader, model=model, optimizer=optimizer)
for (x,) in loader:
    if slow:
        time.sleep(0.1)
    model(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
# Without all of this one process in six aborts at its end ("terminate called without an active exception"),
# also without loaderwatch: torch 2.13 on gloo.
del model, optimizer
gc.collect()
dist.barrier()
time.sleep(0.5)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("buffers", [False, pytest.param(True, marks=pytest.mark.long)])
def test_the_wait_for_the_slow_rank_is_measured(buffers: bool, tmp_path: Path, rings: RingFolder) -> None:
    """Without buffers the wait is last in backward; with them rank 0 sends, so it waits for rank 1, too."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d"]
    process = subprocess.Popen(
        [
            *(sys.executable, *launch, "--rdzv-endpoint", "localhost:0", str(script)),
            *(["--buffers"] if buffers else []),
        ],
        env={**os.environ, "LOADERWATCH_RUN": "ranks", "OMP_NUM_THREADS": "1"},
        start_new_session=True,
        stderr=subprocess.PIPE,
    )
    try:
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, said.decode()[-2000:]
    ranks = {info.pid: info.rank for info in rings.processes()}
    assert {(info.backend, info.collective_timeout_s) for info in rings.processes()} == {("gloo", 420.0)}
    shares = {}
    for main in rings.mains():
        steps = main.of(RecordKind.STEP)[2:]
        shares[ranks[main.pid]] = float(
            np.median([step["collective_ns"] / step["step_ns"] for step in steps])
        )
        for step in steps:
            assert 0 <= step["collective_ns"] <= step["forward_ns"] + step["backward_ns"]
    assert shares[0] > 0.5 > shares[1]  # of a step that is as long as rank 1 sleeps, and what is left


LIGHTNING_SCRIPT = """
import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch

class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 2)
    def training_step(self, batch, number):
        return self.net(batch[0]).square().sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

torch.set_num_threads(1)
loader = DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=4)
module = Module()
loaderwatch.attach(loader, model=module)
ranks = dict(accelerator="cpu", devices=2, strategy="ddp")
trainer = pl.Trainer(max_epochs=1, **ranks, logger=False, enable_checkpointing=False)
trainer.fit(module, loader)
"""


def test_ranks_that_lightning_starts_are_one_run(tmp_path: Path, rings: RingFolder) -> None:
    """It runs the script again for each rank, when the first one is long watched."""
    pytest.importorskip("lightning", reason="lightning is not installed")
    script = tmp_path / "train.py"
    script.write_text(LIGHTNING_SCRIPT)
    process = subprocess.Popen(
        [sys.executable, script],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, said.decode()
    assert {path.parent for path in rings.directory.glob("*/main-*.json")} == {rings.mains()[0].path.parent}
    assert sorted((one.rank, one.local_rank, one.world_size) for one in rings.processes()) == [
        (0, 0, 2),
        (1, 1, 2),
    ]
    assert [len(one.of(RecordKind.STEP)) for one in rings.mains()] == [5, 5]
