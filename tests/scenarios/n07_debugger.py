"""N07: the script sits at a debugger's prompt."""

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train

loader = DataLoader(SlowDataset(100_000, sleep_read(0.002)), batch_size=8, num_workers=2)
loaderwatch.attach(loader)


def stop(step: int) -> None:
    """A breakpoint somebody forgot."""
    if step == 40:
        breakpoint()


train(loader, step_s=0.05, seconds=18, each_step=stop)
