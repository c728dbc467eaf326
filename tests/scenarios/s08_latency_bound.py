"""S08: many workers, all of which wait for storage."""

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

batch = vary(8, 4, 16)
loader = DataLoader(
    SlowDataset(100_000, sleep_read(0.48 / batch * vary(1.0, 1.3))), batch_size=batch, num_workers=vary(6, 8)
)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.02, 0.03))
