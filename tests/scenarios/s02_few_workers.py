"""S02: two workers that each need eight steps' time for a batch."""

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, sleep_read, train, vary

batch, workers = vary(8, 4, 16), vary(2, 3)
built_in(says=[f"num_workers {workers} →"])
loader = DataLoader(
    SlowDataset(100_000, sleep_read(0.16 / batch * vary(1.0, 1.4))), batch_size=batch, num_workers=workers
)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.02, 0.03))
