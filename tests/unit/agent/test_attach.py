"""Wrong arguments to ``attach`` are named at once, with their value and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

import loaderwatch


class Stream(IterableDataset[Any]):
    """Any."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class AtOnce(Dataset[Any]):
    """Reads all samples of a batch at once."""

    def __len__(self) -> int:
        return 1

    def __getitems__(self, indices: list[int]) -> list[int]:
        return indices


STREAM, AT_ONCE = Stream(), AtOnce()
SKIP: dict[str, Any] = {"sample_timeout": 60, "on_timeout": "skip"}
LOADER: Any = DataLoader([1, 2])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("loader", "options", "kind", "text"),
    [
        (3, {}, TypeError, r"loader is 3 \(int\); pass a DataLoader"),
        ("train", {}, TypeError, r"loader is 'train' \(str\); pass a DataLoader"),
        (DataLoader, {}, TypeError, r"loader is .*pass a"),
        (LOADER, {"role": "test"}, ValueError, r"role is 'test' \(str\); use 'train' or 'eval'"),
        (LOADER, {"name": 1}, TypeError, r"name is 1 \(int\); use a string"),
        (LOADER, {"name": " "}, ValueError, r"name is ' '; use 1 to 100"),
        (LOADER, {"model": "resnet"}, TypeError, r"model is 'resnet' \(str\); pass the torch.nn.Module"),
        (LOADER, {"optimizer": 1}, TypeError, r"optimizer is 1 \(int\); pass a torch.optim"),
        (LOADER, {"run": 1}, TypeError, r"run is 1 \(int\); use a string"),
        (LOADER, {"run": "?"}, ValueError, r"run is '\?'; use a name with letters"),
        (LOADER, {"server": 8790}, TypeError, r"server is 8790 \(int\); use a URL"),
        (LOADER, {"server": "box:8790"}, ValueError, r"server is 'box:8790'; use a URL"),
        (LOADER, {"server": "http://"}, ValueError, r"server is 'http://'; use a URL"),
        (LOADER, {"server": "http://box:99999"}, ValueError, r"server is 'http://box:99999'; use a URL"),
        (
            LOADER,
            {"notify": 3},
            TypeError,
            r"notify is a int; use an Apprise address such as 'slack://…', or",
        ),
        (LOADER, {"notify": b"json://x"}, TypeError, r"notify is a bytes; use an Apprise address"),
        (LOADER, {"notify": {"json://x"}}, TypeError, r"notify is a set; use an Apprise address"),
        (LOADER, {"notify": ["json://x", None]}, TypeError, r"notify\[1\] is a NoneType; use an Apprise"),
        (LOADER, {"notify": "hooks.slack.com/T/B/X"}, ValueError, r"^notify has no scheme; use an Apprise"),
        (LOADER, {"notify": ["json://x", "T/B/X"]}, ValueError, r"^notify\[1\] has no scheme; use an"),
        (LOADER, {"model": torch.nn.Linear}, TypeError, r"model is the class Linear; pass an object"),
        (LOADER, {"optimizer": torch.optim.SGD}, TypeError, r"optimizer is the class SGD; pass an object"),
        (
            LOADER,
            {"sample_timeout": "60"},
            TypeError,
            r"sample_timeout is '60' \(str\); use a number of seconds",
        ),
        (
            LOADER,
            {"sample_timeout": True},
            TypeError,
            r"sample_timeout is True \(bool\); use a number of seconds",
        ),
        (LOADER, {"sample_timeout": 0}, ValueError, "sample_timeout is 0; use a number of seconds above 0"),
        (
            LOADER,
            {"sample_timeout": float("inf")},
            ValueError,
            "sample_timeout is inf; use a number of seconds",
        ),
        (
            LOADER,
            {"sample_timeout": float("nan")},
            ValueError,
            "sample_timeout is nan; use a number of seconds",
        ),
        (
            LOADER,
            {"sample_timeout": 60, "on_timeout": "drop"},
            ValueError,
            r"on_timeout is 'drop' \(str\); use 'ra",
        ),
        (
            LOADER,
            {"on_timeout": "skip"},
            ValueError,
            "on_timeout is 'skip' without a sample_timeout; pass the",
        ),
        (
            None,
            {"sample_timeout": 60},
            ValueError,
            r"needs a PyTorch DataLoader, .*loader is None \(NoneType\)",
        ),
        (
            iter([1]),
            {"sample_timeout": 60},
            ValueError,
            r"needs a PyTorch DataLoader, .* Attach the DataLoader",
        ),
        (
            DataLoader(STREAM),
            SKIP,
            ValueError,
            "cannot leave a sample out here: Stream is an IterableDataset, whose",
        ),
        (
            DataLoader(AT_ONCE),
            SKIP,
            ValueError,
            "cannot leave a sample out here: AtOnce has __getitems__, which",
        ),
        (
            DataLoader(AT_ONCE, batch_size=None),
            SKIP,
            ValueError,
            "out here: the loader has batch_size=None, so",
        ),
        ([LOADER, LOADER], {}, TypeError, r"loader is a list of DataLoaders; attach each"),
        ({"train": LOADER}, {}, TypeError, r"loader is a dict of DataLoaders; attach each"),
    ],
)
def test_wrong_argument(
    data_dir: Any, loader: Any, options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        loaderwatch.attach(loader, **options)
    assert type(LOADER) is DataLoader


@pytest.mark.usefixtures("data_dir", "no_streamer")
def test_second_run_name_in_one_process() -> None:
    model = torch.nn.Linear(1, 1)
    loaderwatch.attach(LOADER, run="first", model=model, optimizer=torch.optim.SGD(model.parameters()))
    with pytest.raises(ValueError, match=r"run is 'second', but this process already records run 'first'"):
        loaderwatch.attach(LOADER, run="second")


def test_phase_name() -> None:
    with pytest.raises(TypeError, match=r"name is 3 \(int\); use a string such as 'checkpoint'"):
        loaderwatch.phase(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="name is ' '; use a word such as 'checkpoint'"):
        loaderwatch.phase(" ")


def test_a_wrong_address_is_not_shown(data_dir: Any) -> None:
    with pytest.raises(ValueError) as caught:
        loaderwatch.attach(LOADER, notify="T0K3N/from/a/vault")
    assert "T0K3N" not in str(caught.value)
