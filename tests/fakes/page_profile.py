"""Made-up samples of stacks for the fake server of the page, in the shape of ``GET /runs/{run}/profile``."""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

import msgspec

from loaderwatch.core.answers import (
    CountedStack,
    Profile,
    ProfileFrame,
    ProfileLine,
    ProfilePartName,
    ThreadStateName,
)
from tests.fakes.page_data import XSS, FakeRun, Json

_OWN: Final = "/home/ana/faces/"
_SITE: Final = "/home/ana/.venv/lib/python3.12/site-packages/"
_PYTHON: Final = "/usr/lib/python3.12/"
_Z95: Final = 1.96
"""The quantile of a 95 % interval."""


def _frame(place: str) -> ProfileFrame:
    """A frame from ``FILE:LINE FUNCTION``; a file that begins with ``+`` or ``=`` is a library's."""
    at, function = place.split(" ", 1)
    file, line = at.rsplit(":", 1)
    folder = {"+": _SITE, "=": _PYTHON}.get(file[0], _OWN)
    return ProfileFrame(
        file=folder + file.lstrip("+="), line=int(line), function=function, library=folder != _OWN
    )


_FETCH: Final = "+torch/utils/data/_utils/fetch.py:54 fetch"
_ITEM: Final = "zip_faces.py:48 __getitem__"
_READ: Final = "zip_faces.py:31 read_image"
_DECODE: Final = "zip_faces.py:34 read_image"
_AUGMENT: Final = "augment.py:77 color_jitter"
_ZIP: Final = f"{_FETCH} | {_ITEM} | {_READ} | =zipfile/__init__.py:1341 __init__"
_PIL: Final = f"{_FETCH} | {_ITEM} | {_DECODE} | +PIL/Image.py:937 convert | +PIL/Image.py:890 load"
_STEP: Final = "train.py:212 main | train.py:141 train_epoch"

_Counts = list[tuple[str, ThreadStateName, int]]
_COUNTS: Final[dict[ProfilePartName, _Counts]] = {
    "fetch": [
        (f"{_ZIP} | =zipfile/__init__.py:1408 _RealGetContents", "disk", 118),
        (f"{_ZIP} | =zipfile/__init__.py:1424 _RealGetContents", "running", 61),
        (f"{_ZIP} | =zipfile/__init__.py:1432 _RealGetContents | =zipfile/__init__.py:412 __init__",
         "running", 22),
        (f"{_PIL} | +PIL/ImageFile.py:300 load", "running", 66),
        (f"{_PIL} | +PIL/ImageFile.py:251 load_read", "runnable", 14),
        (f"{_FETCH} | zip_faces.py:52 __getitem__ | {_AUGMENT} | +numpy/_core/fromnumeric.py:2250 clip",
         "running", 27),
        (f"{_FETCH} | zip_faces.py:52 __getitem__ | {_AUGMENT}", "running", 13),
        (f"{_FETCH} | zip_faces.py:55 __getitem__ | labels.py:19 lookup", "lock", 17),
        (f"{_FETCH} | zip_faces.py:57 __getitem__ | mirror.py:8 ensure_local | =socket.py:707 readinto",
         "network", 12),
        (f"{_FETCH} | zip_faces.py:58 __getitem__ | mirror.py:15 unpack | =subprocess.py:1264 wait",
         "child", 5),
        (f"{_FETCH} | +torch/utils/data/_utils/collate.py:398 default_collate"
         " | +torch/utils/data/_utils/collate.py:212 collate", "running", 9),
        (f"{_FETCH} | zip_faces.py:60 __getitem__", "timer", 4),
    ],
    "step": [
        (f"{_STEP} | train.py:156 log_metrics | +wandb/sdk/wandb_run.py:1712 log", "pipe", 21),
        (f"{_STEP} | train.py:149 accuracy | +torch/_tensor.py:1030 item", "waiting", 16),
        (f"{_STEP} | train.py:152 clip_by_layer", "running", 9),
    ],
    "evaluation": [],
    "boundary": [
        ("train.py:212 main | train.py:130 train_epoch | +torch/utils/data/dataloader.py:493 __iter__"
         " | +torch/utils/data/dataloader.py:1176 __init__ | =multiprocessing/process.py:121 start"
         " | =multiprocessing/popen_fork.py:66 _launch", "running", 8),
        ("train.py:214 main | train.py:188 save | +torch/serialization.py:943 save", "disk", 4),
    ],
}  # fmt: skip
_FEW: Final[dict[ProfilePartName, _Counts]] = {
    "fetch": [(f"{_PIL} | +PIL/ImageFile.py:300 load", "running", 5),
              (f"{_FETCH} | {_ITEM} | {_READ}", "disk", 2)],
}  # fmt: skip


def profile(run: FakeRun, q: dict[str, str], wall: float) -> Json:
    """The samples of a part: many of a run that waits for data, few of others, none of a lost one.

    Stacks of a run with several hosts are often unread. A rank has its share of the samples.
    """
    of: ProfilePartName = q["of"]  # type: ignore[assignment]
    counts = (_COUNTS if run.findings or run.starved else _FEW).get(of, [])
    if run.state == "lost":
        counts = []
    named = XSS if run.run_id.startswith("xss") else "read_image"
    ranks = [int(q["rank"])] if "rank" in q else list(range(run.ranks))
    end = min(float(q.get("end", wall)), run.now(wall))
    start = max(float(q.get("start", end - 300)), run.t0)
    stacks = [
        CountedStack(
            frames=[_frame(place) for place in text.replace("read_image", named).split(" | ")],
            state=state,
            samples=samples if len(ranks) > 1 else math.ceil(samples / 2),
        )
        for text, state, samples in counts
    ]
    samples = sum(stack.samples for stack in stacks)
    answer = Profile(
        of=of,
        ranks=ranks if samples else [],
        start=start if samples else None,
        end=end if samples else None,
        samples=samples,
        unread=samples // 2 if len(run.hosts) > 1 else samples // 50,
        states=_shares(stacks),
        lines=_lines(stacks, samples, of),
        stacks=sorted(stacks, key=lambda stack: -stack.samples),
    )
    built: Json = msgspec.to_builtins(answer)
    return built


def _shares(stacks: list[CountedStack]) -> dict[ThreadStateName, float]:
    counted: Counter[ThreadStateName] = Counter()
    for stack in stacks:
        counted[stack.state] += stack.samples
    return {state: number / counted.total() for state, number in counted.most_common()}


def _lines(stacks: list[CountedStack], samples: int, of: ProfilePartName) -> list[ProfileLine]:
    """Stacks by the innermost line of the user's code, the largest share first."""
    by_line: dict[ProfileFrame, list[CountedStack]] = {}
    for stack in stacks:
        own = [frame for frame in stack.frames if not frame.library]
        by_line.setdefault(own[-1] if own else stack.frames[-1], []).append(stack)
    lines = []
    for frame, of_line in by_line.items():
        share = sum(stack.samples for stack in of_line) / samples
        low, high = _interval(share, samples)
        called = of_line[0].frames[of_line[0].frames.index(frame) + 1 :]
        lines.append(
            ProfileLine(
                file=frame.file, line=frame.line, function=frame.function, share=share, low=low, high=high,
                states=_shares(of_line),
                calls=called[-1].function if called else None,
                per_sample_s=0.0311 * share if of == "fetch" else None,
                per_batch_s=None if of == "fetch" else 0.18 * share,
                speedup=1 / (1 - min(share, 0.55)) if of == "fetch" else 1 / (1 - 0.4 * share),
            )
        )  # fmt: skip
    return sorted(lines, key=lambda line: -line.share)


def _interval(share: float, samples: int) -> tuple[float, float]:
    """Wilson (1927)."""
    z2 = _Z95**2
    middle = (share + z2 / (2 * samples)) / (1 + z2 / samples)
    half = _Z95 / (1 + z2 / samples) * math.sqrt(share * (1 - share) / samples + z2 / (4 * samples**2))
    return max(0.0, middle - half), min(1.0, middle + half)
