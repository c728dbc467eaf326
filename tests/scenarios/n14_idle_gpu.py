"""N14 (simulated GPU): most of a step is a simulator on the CPU, and the GPU idles, by design."""

import os
import time
from pathlib import Path

from torch.utils.data import DataLoader

import loaderwatch
from loaderwatch.demo.stand_in import BusyFile, SimulatedGpu, build, environment, write_script
from tests.scenarios.training import SlowDataset, burn, sleep_read, train, vary

folder = Path(os.environ["LOADERWATCH_DIR"]) / "gpus"
busy = BusyFile(Path(os.environ["LOADERWATCH_DIR"]) / "busy")
library = build(folder)
write_script(folder / "script", [SimulatedGpu(uuid="GPU-0", busy=busy.path, pids=[os.getpid()])])
os.environ.update(environment(library, folder / "script"))
loader = DataLoader(SlowDataset(100_000, sleep_read(0.002)), batch_size=vary(8, 4), num_workers=vary(2, 3))
loaderwatch.attach(loader)


def step(number: int) -> None:
    """The environment first, then a moment of learning."""
    burn(0.02)
    time.sleep(0.05)
    with busy:
        time.sleep(0.005)


train(loader, step_s=0.0, seconds=14, each_step=step)
