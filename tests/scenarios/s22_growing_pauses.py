"""S22's sibling: an unreadable file is retried without end, with growing pauses, as storage clients do."""

import itertools
import json
import tempfile
import time
from pathlib import Path

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, train, vary

BAD = 333
LONGEST_S = 0.8
batch, workers = vary(8, 4), vary(2, 3)
built_in(worker=BAD // batch % workers, samples=[BAD])
folder = tempfile.TemporaryDirectory()
good, bad = Path(folder.name) / "good.json", Path(folder.name) / "bad.json"
good.write_text(json.dumps({"label": 3}))
bad.write_text('{"label": ')


def label(index: int) -> int:
    """As one that takes a broken file for one that is still being written."""
    for attempt in itertools.count():
        try:
            return int(json.loads((bad if index == BAD else good).read_text())["label"])
        except ValueError:
            time.sleep(min(LONGEST_S, 0.01 * 2**attempt))
    raise AssertionError


loader = DataLoader(SlowDataset(100_000, label), batch_size=batch, num_workers=workers)
loaderwatch.attach(loader)
train(loader, step_s=0.02)
