"""A training process that died because a disk was full: S56."""

from __future__ import annotations

import math
import re
from typing import Final

from loaderwatch.core.threshold import threshold
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.window import HostWindow, RankWindow

_FULL: Final = re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE)
# torch.save's errors for a file that it could not write to the end, for any reason. torch.load has others.
_CUT_FILE: Final = re.compile(r"unexpected pos \d+ vs \d+|PytorchStreamWriter failed writing")
_OF_A_LOADER: Final = re.compile(
    r"Caught \w+ in DataLoader worker|shared memory|/dev/shm|torch_\d", re.IGNORECASE
)
FULL_SHM_RATIO: Final = threshold(0.9, "ratio", "chosen: a fuller /dev/shm may be what ran out of space")


def of_its_error(rank: RankWindow, host: HostWindow | None, text: str) -> Explanation | None:
    """Explain a death because the training process could not write; None if not, or if /dev/shm was full."""
    cut = _CUT_FILE.search(text) is not None
    if not cut and (not _FULL.search(text) or _OF_A_LOADER.search(text) or _may_be_shm(rank, host)):
        return None
    path = host.info.filling_disk if host is not None else None
    left_bytes = host.newest("filling_disk_free_bytes") if host is not None else math.nan
    return Explanation(
        "S56",
        0.9 if path or not cut else 0.7,
        rule="disk-full",
        params={
            "path": path or None,
            "sure": bool(path) or not cut,
            "cut": cut,
            "left_bytes": left_bytes if math.isfinite(left_bytes) else None,
        },
    )


def _may_be_shm(rank: RankWindow, host: HostWindow | None) -> bool:
    """Whether /dev/shm may have been full: it was nearly full, or workers were just starting."""
    if not any(loader.num_workers for loader in rank.process.loaders):
        return False
    if not rank.table("steps")["rank"].size:
        return True
    total, used = (
        host.newest(f"shm_{name}_bytes") if host is not None else math.nan for name in ("total", "used")
    )
    return not used < FULL_SHM_RATIO * total
