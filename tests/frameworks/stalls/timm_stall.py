"""timm with a stall: ``python -m tests.frameworks.stalls.timm_stall transform|file|worker``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import timm
import torch
from PIL import Image
from timm.data import IterableImageDataset, create_dataset, create_loader
from torch.utils.data import get_worker_info
from torchvision import transforms

from tests.frameworks.stalls import culprits

STALL = culprits.kind()


class Shares:
    """A reader as timm's streams have it: one share of photographs for each worker."""

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        photo = Image.new("RGB", (32, 32))
        while True:
            culprits.decode(info.id if info is not None else 0)
            yield photo, 0

    def __len__(self) -> int:
        return 100_000


def photos(length: int) -> Any:
    """timm's folder dataset; with ``file``, the photograph in its middle is a pipe."""
    for label in ("a", "b"):
        folder = culprits.SCRATCH / "photos" / label
        folder.mkdir(parents=True)
        for number in range(length):
            Image.new("RGB", (32, 32)).save(folder / f"{number:04}.png")
    if STALL == culprits.FILE:
        culprits.blocked_file(culprits.SCRATCH / "photos" / "a" / "blocked.png")
    return create_dataset("", str(culprits.SCRATCH / "photos"), is_training=True)


if __name__ == "__main__":
    torch.manual_seed(7)
    data = IterableImageDataset("", reader=Shares()) if STALL == culprits.WORKER else photos(333)
    loader = create_loader(
        data,
        (3, 32, 32),
        culprits.BATCH,
        is_training=True,
        num_workers=culprits.workers(STALL),
        use_prefetcher=False,
        persistent_workers=True,
        device=torch.device("cpu"),
    )
    if STALL == culprits.TRANSFORM:
        loader.dataset.transform = transforms.Compose([culprits.transform, loader.dataset.transform])
    model = timm.create_model("test_resnet", num_classes=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(1000):
        for pictures, labels in loader:
            time.sleep(culprits.step_s(STALL))
            loss: Any = torch.nn.functional.cross_entropy(model(pictures), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
