"""S17 (simulated GPU): every batch goes to the GPU from pageable memory, by a copy that blocks.

PyTorch's meta device and a fake NVML stand for the GPU; batches, loader and hooks are real.
A copy is made in host memory and then sleeps for the rest of its time. With ``--waits`` a copy takes as
long but the GPU computes throughout: such a copy only waits for kernels of the step before (N06).
"""

import os
import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from loaderwatch.demo.stand_in import BusyFile, SimulatedGpu, build, environment, write_script
from tests.scenarios.training import UNTIL_FOUND_S, built_in, vary

torch.set_num_threads(1)
waits = "--waits" in sys.argv
images = vary(64, 48)
copy_s = images * 3 * 224 * 224 * 4 / vary(2.0e9, 2.5e9)
compute_s = vary(0.03, 0.025)
if not waits:
    built_in(says=["pin_memory=True", "non_blocking=True", f"{images * 3 * 224 * 224 * 4 / 1e6:.0f} MB"])


class Images(Dataset[Tensor]):
    """Whole batches, all the same, in shared memory: reading costs nothing."""

    def __init__(self) -> None:
        self.batch: Tensor = torch.zeros(images, 3, 224, 224).share_memory_()  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> Tensor:
        return self.batch


staging = torch.empty(images, 3, 224, 224)


def to_device(batch: Tensor) -> Tensor:
    """What a driver does with pageable memory, and then the bus."""
    until = time.monotonic() + copy_s
    staging.copy_(batch)
    time.sleep(max(0.0, until - time.monotonic()))
    return torch.empty(batch.shape, device="meta")


folder = Path(os.environ["LOADERWATCH_DIR"]) / "gpus"
busy = BusyFile(Path(os.environ["LOADERWATCH_DIR"]) / "busy")
library = build(folder)
write_script(folder / "script", [SimulatedGpu(uuid="GPU-0", busy=busy.path, pids=[os.getpid()])])
os.environ.update(environment(library, folder / "script"))
model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 224 * 224, 10)).to("meta")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Images(), batch_size=None, num_workers=2, pin_memory=False)
loaderwatch.attach(loader, model=model, optimizer=optimizer)
until = time.monotonic() + (14 if waits else UNTIL_FOUND_S)
if waits:
    busy.begin()
for batch in loader:
    loss = model(to_device(batch)).sum()
    if not waits:
        busy.begin()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(compute_s)
    if not waits:
        busy.end()
    if time.monotonic() > until:
        break
