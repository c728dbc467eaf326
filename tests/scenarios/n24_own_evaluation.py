"""N24: after each epoch the script's own evaluation loop computes for longer than the hang limit."""

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, burn, sleep_read, train, vary

batch, steps = vary(8, 5), vary(40, 30)
loader = DataLoader(SlowDataset(batch * 60, sleep_read(0.002)), batch_size=batch, num_workers=vary(2, 1))
loaderwatch.attach(loader)


def generate(epoch: int) -> None:
    """Steadily at work."""
    for _step in range(steps):
        burn(0.3)


train(loader, step_s=0.03, seconds=40, each_epoch=generate)
