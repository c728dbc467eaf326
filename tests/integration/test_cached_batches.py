"""``loaderwatch run --cached-batches N``: real scripts that train on the first N batches repeatedly."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("data_dir")]

SCRIPT = """
import sys, time, torch, psutil
from torch.utils.data import DataLoader, Dataset, IterableDataset

class Pictures(Dataset):
    def __len__(self): return 240
    def __getitem__(self, index):
        time.sleep(0.03)
        return {"x": torch.full((2,), float(index))}

class Stream(IterableDataset):
    def __iter__(self):
        for index in range(240):
            time.sleep(0.01)
            yield {"x": torch.full((2,), float(index))}

def train(loader, held_out, epochs=3):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    for epoch in range(epochs):
        seen = []
        for batch in loader:
            x = batch.pop("x")
            seen.append(int(x[0, 0]))
            model(x).sum().backward()
            optimizer.step()
        workers = len(psutil.Process().children())
        with torch.no_grad():
            evaluated = len({int(batch["x"][0, 0]) for batch in held_out})
        print(epoch, len(seen), len(set(seen)), evaluated, workers, flush=True)

if __name__ == "__main__":
    kept = "kept" in sys.argv
    data = Stream() if "stream" in sys.argv else Pictures()
    loader = DataLoader(data, batch_size=4, num_workers=2 if kept else 0, persistent_workers=kept)
    train(loader, DataLoader(Pictures(), batch_size=4))
"""


def run(folder: Path, *options: str) -> tuple[list[list[int]], str]:
    (folder / "train.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "loaderwatch", "run", "--cached-batches", "12", "train.py", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return [[int(word) for word in line.split()] for line in done.stdout.splitlines()], done.stderr


@pytest.mark.parametrize("kept", [False, True])
def test_the_first_batches_come_again_and_the_passes_are_as_long(tmp_path: Path, kept: bool) -> None:
    passes, said = run(tmp_path, *(["kept"] if kept else []))
    assert [one[:4] for one in passes] == [[0, 60, 12, 60], [1, 60, 12, 60], [2, 60, 12, 60]]
    assert {one[4] for one in passes} <= {
        0,
        1,
    }  # no worker lives; the local server may be a child for a moment
    speeds = re.search(r"([\d.e+]+) batches/s with 12 cached batches, ([\d.]+) while it read", said)
    assert speeds is not None, said
    again, read = map(float, speeds.groups())
    assert again > 3 * read  # 120 ms of waiting for each, or a step of a few
    assert "a perfect loader would make this run at most" in said
    assert "what is trained is worthless" in said


def test_a_stream_without_a_length_is_read_to_its_end_first(tmp_path: Path) -> None:
    passes, said = run(tmp_path, "stream")
    assert [one[:3] for one in passes] == [[0, 60, 60], [1, 60, 12], [2, 60, 12]]
    assert "with 12 cached batches" in said


def test_a_number_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "loaderwatch", "run", "--cached-batches", "many", "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 2
    assert "it is 'many'; use how many batches, 1 to 100000" in done.stderr
