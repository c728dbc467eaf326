"""S55: validation inside a training step, every so many steps, with a loader that is slow; training is fast.

With ``--quick`` the validation is fast as well.
"""

import sys
import time
from typing import Any

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, SlowDataset, sleep_read, train, vary

STEP_S = 0.04
SLOW = "--quick" not in sys.argv
HOW: dict[str, Any] = {"num_workers": 0} if SLOW else {"num_workers": 1, "persistent_workers": True}
every = vary(40, 30)
loader = DataLoader(SlowDataset(4000), batch_size=8, num_workers=2, persistent_workers=True)
validation = DataLoader(
    SlowDataset(160, *([sleep_read(0.01)] if SLOW else [])), batch_size=vary(8, 10), **HOW
)
loaderwatch.attach(loader, name="train_loader")
loaderwatch.attach(validation, name="val_loader", role="eval")


def validate(step: int) -> None:
    """The loop is still in its training step."""
    if step % every == every - 1:
        for _ in validation:
            time.sleep(0.02)
        time.sleep(0.3)  # metrics of all of it


train(loader, step_s=STEP_S, seconds=UNTIL_FOUND_S if SLOW else 18, each_step=validate)
