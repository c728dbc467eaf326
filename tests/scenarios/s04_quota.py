"""S04: the container may use less CPU than the machine shows."""

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.control_group import join_cpu_group
from tests.scenarios.training import SlowDataset, built_in, burn, train, vary

quota, workers, batch = vary(0.4, 0.3, 0.5), vary(2, 3), vary(8, 4, 16)
built_in(says=[f"{quota:.2f} CPUs"])
join_cpu_group(quota)
loader = DataLoader(
    SlowDataset(100_000, lambda index: burn(0.06 / batch)), batch_size=batch, num_workers=workers
)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.05, 0.03))
