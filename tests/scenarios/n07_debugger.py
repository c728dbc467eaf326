"""N07: the script sits at a debugger's prompt."""

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

loader = DataLoader(SlowDataset(100_000, sleep_read(0.002)), batch_size=vary(8, 5), num_workers=vary(2, 3))
loaderwatch.attach(loader)
at = vary(40, 31)


def stop(step: int) -> None:
    """A breakpoint somebody forgot."""
    if step == at:
        breakpoint()


train(loader, step_s=0.05, seconds=18, each_step=stop)
