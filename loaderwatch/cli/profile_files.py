"""Files of a profile for flame graphs: collapsed stacks, and speedscope's own format."""

from __future__ import annotations

import json
from typing import Final

from loaderwatch import __version__
from loaderwatch.cli.profile_lines import short_files
from loaderwatch.core.answers import Profile
from loaderwatch.core.printable import one_line

_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"


def collapsed(profile: Profile) -> str:
    """Return one line per stack: its frames from the outermost on, separated by ";", and its samples.

    The last frame is the state, such as ``[disk]``. Source of the format: Brendan Gregg's FlameGraph,
    ``stackcollapse.pl``.
    """
    short = short_files({frame.file for stack in profile.stacks for frame in stack.frames})
    lines = []
    for stack in profile.stacks:
        frames = [f"{frame.function} ({short[frame.file]}:{frame.line})" for frame in stack.frames]
        names = [one_line(frame).replace(";", ",") for frame in [*frames, f"[{stack.state}]"]]
        lines.append(f"{';'.join(names)} {stack.samples}\n")
    return "".join(lines)


def speedscope(profile: Profile, name: str) -> str:
    """Return the JSON of a "sampled" profile. A stack's last frame is its state, as in ``collapsed``.

    Source of the format: https://www.speedscope.app/file-format-schema.json.
    """
    numbers: dict[tuple[str, str, int], int] = {}
    samples = []
    for stack in profile.stacks:
        frames = [(one_line(frame.function), one_line(frame.file), frame.line) for frame in stack.frames]
        frames.append((f"[{stack.state}]", "", 0))
        samples.append([numbers.setdefault(frame, len(numbers)) for frame in frames])
    weights = [stack.samples for stack in profile.stacks]
    title = f"{one_line(name)}: {profile.of}"
    sampled = {
        "type": "sampled",
        "name": title,
        "unit": "none",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
    content = {
        "$schema": _SCHEMA,
        "exporter": f"loaderwatch@{__version__}",
        "name": title,
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(*frame) for frame in numbers]},
        "profiles": [sampled],
    }
    return f"{json.dumps(content)}\n"


def _frame(name: str, file: str, line: int) -> dict[str, str | int]:
    return {"name": name, "file": file, "line": line} if file else {"name": name}
