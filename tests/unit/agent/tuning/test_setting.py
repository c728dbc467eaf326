"""A tuned setting: kept for one run, and given to the loader of its line alone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from loaderwatch.agent.tuning.setting import TunedSetting, apply_tuned, keep, take

SETTING = TunedSetting(loader="train_loader", made_at="train.py:3", num_workers=6, prefetch_factor=4)
DATA = TensorDataset(torch.zeros(8, 2))


def test_it_is_taken_once(tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    assert take(path, ["/a/train.py"]) is None
    keep(path, "/a/train.py", SETTING)
    keep(path, "-m package.train", SETTING)
    assert take(path, ["/b/train.py"]) is None
    assert take(path, ["/usr/bin/torchrun", "/a/train.py"]) == SETTING
    assert take(path, ["/a/train.py"]) is None
    assert take(path, ["-m package.train"]) == SETTING


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"/a/train.py": 5}', b"\xff"])
def test_a_file_that_is_none_keeps_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tuned.json"
    path.write_bytes(content)
    assert take(path, ["/a/train.py"]) is None
    keep(path, "/a/train.py", SETTING)
    assert take(path, ["/a/train.py"]) == SETTING


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize(
    ("setting", "call", "made"),
    [
        (SETTING, "DataLoader(DATA, batch_size=4)", (6, 4, False)),
        (SETTING, "DataLoader(DATA, 4, True, None, None, 2)", (6, 4, False)),
        (SETTING, "DataLoader(DATA, num_workers=2, persistent_workers=True)", (6, 4, True)),
        (
            msgspec.structs.replace(SETTING, num_workers=0),
            "DataLoader(DATA, num_workers=2, prefetch_factor=8, persistent_workers=True, timeout=5)",
            (0, None, False),
        ),
        (
            msgspec.structs.replace(SETTING, prefetch_factor=None),
            "DataLoader(DATA, num_workers=2, prefetch_factor=8)",
            (6, 8, False),
        ),
        (
            msgspec.structs.replace(SETTING, made_at="train.py:4"),
            "DataLoader(DATA, num_workers=2)",
            (2, 2, False),
        ),
        (
            msgspec.structs.replace(SETTING, made_at="eval.py:3"),
            "DataLoader(DATA, num_workers=2)",
            (2, 2, False),
        ),
    ],
)
def test_the_loader_of_its_line_gets_it(
    monkeypatch: pytest.MonkeyPatch, setting: TunedSetting, call: str, made: tuple[int, int | None, bool]
) -> None:
    monkeypatch.setattr(DataLoader, "__init__", DataLoader.__init__)  # what we put there goes again
    apply_tuned(DataLoader, msgspec.json.encode(setting).decode())
    names = {"DATA": DATA, "DataLoader": DataLoader}
    exec(compile(f"\n\nloader = {call}", "/somewhere/train.py", "exec"), names)
    loader = names["loader"]
    assert isinstance(loader, DataLoader)
    assert (loader.num_workers, loader.prefetch_factor, loader.persistent_workers) == made
