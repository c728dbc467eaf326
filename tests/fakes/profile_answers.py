"""A profile as the server answers it, with the numbers of a training that opens a zip file per sample."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from loaderwatch.core.answers import CountedStack, Profile, ProfileFrame, ProfileLine

SCRIPT: Final = "/home/ada/faces/zip_faces.py"
LIBRARY: Final = "/usr/lib/python3.12/zipfile/__init__.py"


def line(number: int, share: float, **changed: Any) -> ProfileLine:
    """A line of the script with a share of the samples: 80 % of them run, 20 % wait for the disk."""
    plain = ProfileLine(
        file=SCRIPT,
        line=number,
        function="__getitem__",
        share=share,
        low=max(0.0, share - 0.03),
        high=share + 0.03,
        states={"running": 0.8, "disk": 0.2},
    )
    return msgspec.structs.replace(plain, **changed)


def stack(samples: int, *frames: ProfileFrame, state: Any = "running") -> CountedStack:
    """A stack with so many samples. The outermost frame comes first."""
    return CountedStack(frames=list(frames), state=state, samples=samples)


def frame(function: str, number: int, file: str = SCRIPT) -> ProfileFrame:
    return ProfileFrame(file=file, line=number, function=function, library=file == LIBRARY)


def zip_profile(**changed: Any) -> Profile:
    """812 samples of fetches of two ranks: 92 % in a line that opens a zip file."""
    item, opened = frame("__getitem__", 48), frame("_RealGetContents", 1471, LIBRARY)
    plain = Profile(
        of="fetch",
        ranks=[0, 1],
        start=1_000.0,
        end=1_190.0,
        samples=812,
        unread=0,
        states={"disk": 0.24, "running": 0.61, "network": 0.15},
        lines=[
            line(48, 0.92, calls="zipfile._RealGetContents", per_sample_s=0.0124, speedup=2.1),
            line(52, 0.05, per_sample_s=0.0007, states={"running": 1.0}),
        ],
        stacks=[stack(600, item, opened), stack(147, item, opened, state="disk"), stack(65, item)],
    )
    return msgspec.structs.replace(plain, **changed)
