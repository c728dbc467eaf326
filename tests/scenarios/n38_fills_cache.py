"""N38: features are computed in the first epoch and kept in files, which all later epochs read."""

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, burn, vary

CLIPS = vary(400, 480)
BINS = 4000
COMPUTING_S = vary(0.06, 0.08)


class Features(Dataset[Tensor]):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __len__(self) -> int:
        return CLIPS

    def __getitem__(self, index: int) -> Tensor:
        kept = self.folder / f"{index}.npy"
        if not kept.exists():
            burn(COMPUTING_S)
            np.save(kept, np.random.default_rng(index).random(BINS, dtype=np.float32))
        return torch.from_numpy(np.load(kept))


torch.set_num_threads(1)
with tempfile.TemporaryDirectory() as place:
    loader = DataLoader(Features(Path(place)), batch_size=8, shuffle=True, num_workers=0)
    model = nn.Linear(BINS, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loaderwatch.attach(loader, model=model, optimizer=optimizer)
    deadline = time.monotonic() + UNTIL_FOUND_S
    while time.monotonic() < deadline:
        for batch in loader:
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            time.sleep(0.04)  # reading takes 2.5 ms then, on a busy machine as well
            if time.monotonic() > deadline:
                break
