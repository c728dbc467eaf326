"""The profile: counts of stacks that were sampled while time was lost, and what they say of each line.

The rows are those of the table ``profile``; a text of ``facts.ProfileStack`` belongs to each stack's id.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Final, get_args

import numpy as np

from loaderwatch.core import answers
from loaderwatch.core.answers import ProfilePartName, ThreadStateName
from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import NATIVE_FILE
from loaderwatch.core.records import LEAST_SAMPLES, ProfilePart, ThreadState
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.measures.stacks import Frame, threads, user_frame
from loaderwatch.detect.measures.statistics import ratio, wilson
from loaderwatch.detect.window import one_of

MOST_STACKS: Final = threshold(200, "stacks", "chosen: the most stacks and the most lines of an answer")
MOST_SAMPLES: Final = threshold(
    2**40, "samples", "chosen: the most that a row counts, so that sums of hostile rows cannot overflow"
)
PARTS: Final[Mapping[ProfilePartName, ProfilePart]] = {
    name: ProfilePart[name.upper()] for name in get_args(ProfilePartName)
}
_STATES: Final[Mapping[int, ThreadStateName]] = {
    ThreadState[name.upper()]: name for name in get_args(ThreadStateName)
}
_MODULE: Final = re.compile(
    r"(?:(?:site|dist)-packages|/lib\d*/python\d[\d.]*t?|\\[Ll]ib)[/\\](?!.*(?:site|dist)-packages)"
    r"(?P<path>.+)\.pyc?$"
)
_FROZEN: Final = re.compile(r"<frozen (?P<module>[\w.]+)>$")


@dataclass(frozen=True, slots=True)
class StackCount:
    """A stack (innermost frame first) and what its thread did: how many ``samples`` had both."""

    frames: tuple[Frame, ...]
    state: ThreadStateName
    samples: int


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the user's code, or the innermost line of stacks without any.

    ``low`` and ``high`` are the 95 % interval of ``share``. ``states`` are shares of this line's samples.
    ``calls`` is the library's function that the line usually is in; None: its own code.
    """

    frame: Frame
    samples: int
    share: float
    low: float
    high: float
    states: Mapping[ThreadStateName, float]
    calls: str | None


@dataclass(frozen=True)
class Profile:
    """The counted stacks of one part of a training, the most frequent first. Times are ns UTC.

    ``unread`` samples have no stack: the process could not be read, the stack is a rare one, or its text is
    not known here. ``readers`` is the sum over all samples of the workers that fetched at that moment.
    """

    part: ProfilePart
    ranks: tuple[int, ...]
    stacks: tuple[StackCount, ...]
    unread: int
    readers: int
    first_ns: int | None  # when the first counts were taken
    last_ns: int | None

    @cached_property
    def samples(self) -> int:
        """Return how many samples have a stack."""
        return sum(stack.samples for stack in self.stacks)

    @cached_property
    def readers_mean(self) -> float:
        """Return how many workers of a rank fetched at the moment of a sample; NaN without samples."""
        return ratio(self.readers, self.samples + self.unread)

    @cached_property
    def state_ratios(self) -> Mapping[ThreadStateName, float]:
        """Return each state's share of the samples with a stack, the largest first."""
        return _shares(self.stacks)

    @cached_property
    def lines(self) -> Sequence[Line]:
        """Return the lines by their share of the samples with a stack, the largest first."""
        by_line: dict[Frame, list[StackCount]] = {}
        for stack in self.stacks:
            by_line.setdefault(user_frame(stack.frames) or _innermost(stack.frames), []).append(stack)
        lines = [self._line(frame, stacks) for frame, stacks in by_line.items()]
        return sorted(lines, key=lambda line: -line.samples)

    def _line(self, frame: Frame, stacks: Sequence[StackCount]) -> Line:
        samples = sum(stack.samples for stack in stacks)
        called: Counter[str | None] = Counter()
        for stack in stacks:
            called[_called(stack.frames)] += stack.samples
        low, high = wilson(samples, self.samples)
        share = samples / self.samples
        return Line(frame, samples, share, low, high, _shares(stacks), called.most_common(1)[0][0])

    def usual_line(self, shows: Callable[[Sequence[Frame]], bool]) -> Frame | None:
        """Return the user's line with most samples among the stacks for which ``shows`` is true.

        The frames have the innermost first. None with fewer than ``LEAST_SAMPLES`` such samples.
        """
        by_line: Counter[Frame] = Counter()
        for stack in self.stacks:
            frame = user_frame(stack.frames)
            if frame is not None and shows(stack.frames):
                by_line[frame] += stack.samples
        return by_line.most_common(1)[0][0] if by_line.total() >= LEAST_SAMPLES else None

    def ratio(self, shows: Callable[[Sequence[Frame]], bool]) -> float:
        """Return the share (0 to 1) of the samples with a stack for which ``shows`` is true of its frames.

        The frames have the innermost first. NaN without samples.
        """
        return ratio(sum(stack.samples for stack in self.stacks if shows(stack.frames)), self.samples)


def profile_of(
    rows: Columns,
    texts: Mapping[int, str],
    part: ProfilePart,
    ranks: Iterable[int] | None = None,
    loader: int | None = None,
) -> Profile:
    """Return the profile of a part.

    Args:
        rows: rows of the table ``profile``, of any ranks and parts; a sampled stack may be in several.
        texts: by id, the texts of stacks. Equal stacks with different ids count as one.
        part: the part of the training.
        ranks: only these ranks; None: all.
        loader: only this loader; None: all.
    """
    wanted = rows["part"] == part
    if ranks is not None:
        wanted &= one_of(rows["rank"], list(ranks))
    if loader is not None:
        wanted &= rows["loader"] == loader
    samples, readers = (np.clip(rows[name][wanted], 0, MOST_SAMPLES) for name in ("samples", "readers"))
    by_id: Counter[tuple[int, int]] = Counter()
    ids, states = rows["stack"][wanted].tolist(), rows["state"][wanted].tolist()
    for number, state, count in zip(ids, states, samples.tolist(), strict=True):
        by_id[number, state] += count
    counts: Counter[tuple[tuple[Frame, ...], ThreadStateName]] = Counter()
    unread = 0
    for (number, state), count in by_id.items():
        stacks = threads(texts.get(number, "")) if number else ()
        if stacks:
            counts[stacks[0], _STATES.get(state, "waiting")] += count  # a newer streamer knows more states
        else:
            unread += count
    times = rows["t_ns"][wanted]
    return Profile(
        part=part,
        ranks=tuple(sorted(set(rows["rank"][wanted].tolist()))),
        stacks=tuple(StackCount(*stack, count) for stack, count in counts.most_common() if count),
        unread=unread,
        readers=int(readers.sum()),
        first_ns=int(times.min()) if times.size else None,
        last_ns=int(times.max()) if times.size else None,
    )


def answer(
    profile: Profile,
    of: ProfilePartName,
    ranks: Sequence[int],
    sample_s: float | None = None,
    batch_s: float | None = None,
    loop_ratio: float | None = None,
) -> answers.Profile:
    """Return a profile as in the API, with at most ``MOST_STACKS`` stacks and lines.

    Args:
        profile: the profile.
        of: its part.
        ranks: the ranks that it is of.
        sample_s: seconds of a fetch per sample of the dataset, on average; None if not known.
        batch_s: seconds of a fetch, or of a step's own work, on average; None if not known.
        loop_ratio: the share (0 to 1) of the loop's time that it waits for fetches, or does its own work.
    """
    return answers.Profile(
        of=of,
        ranks=list(ranks),
        start=None if profile.first_ns is None else profile.first_ns / 1e9,
        end=None if profile.last_ns is None else profile.last_ns / 1e9,
        samples=profile.samples,
        unread=profile.unread,
        states=dict(profile.state_ratios),
        lines=[
            answers.ProfileLine(
                file=line.frame.file,
                line=_number(line.frame),
                function=line.frame.function,
                share=line.share,
                low=line.low,
                high=line.high,
                states=dict(line.states),
                calls=line.calls,
                per_sample_s=None if sample_s is None else line.share * sample_s,
                per_batch_s=None if batch_s is None else line.share * batch_s,
                speedup=None if loop_ratio is None else _speedup(of, line.share, loop_ratio),
            )
            for line in profile.lines[:MOST_STACKS]
        ],
        stacks=[
            answers.CountedStack(
                frames=[
                    answers.ProfileFrame(
                        file=frame.file,
                        line=_number(frame),
                        function=frame.function,
                        library=frame.library,
                    )
                    for frame in reversed(stack.frames)
                ],
                state=stack.state,
                samples=stack.samples,
            )
            for stack in profile.stacks[:MOST_STACKS]
        ],
    )


def _speedup(of: ProfilePartName, share: float, loop_ratio: float) -> float | None:
    """Return how many times as fast the loop would be at most without a line; None if that is endless.

    A loop that waits for fetches needs their time, so an iteration becomes shorter by the line's share of a
    fetch at most. It cannot lose more than its wait. Steps lose the line's share of their own work.
    """
    saved = min(share, loop_ratio) if of == "fetch" else share * loop_ratio
    return 1 / (1 - saved) if saved < 1 else None


def _shares(stacks: Sequence[StackCount]) -> dict[ThreadStateName, float]:
    """Return each state's share of the samples of some stacks, the largest first."""
    counts: Counter[ThreadStateName] = Counter()
    for stack in stacks:
        counts[stack.state] += stack.samples
    total = counts.total()
    return {state: count / total for state, count in counts.most_common()}


def _innermost(frames: Sequence[Frame]) -> Frame:
    """Return the innermost frame with a line of its own; a native function has none."""
    return next((frame for frame in frames if frame.file != NATIVE_FILE), frames[0])


def _called(frames: Sequence[Frame]) -> str | None:
    """Return the library's function that the innermost line of the user's code is in; None if in none."""
    inner = next((depth for depth, frame in enumerate(frames) if not frame.library), 0)
    if not inner:
        return None
    frame = frames[inner - 1]
    module = _module(frame.file)
    return f"{module}.{frame.function}" if module else frame.function


def _module(file: str) -> str:
    """Return a library file's module, such as ``PIL.Image``; "" if the code is of no file."""
    if file.startswith("<"):
        frozen = _FROZEN.match(file)
        return frozen["module"] if frozen else ""
    inside = _MODULE.search(file)
    path = PurePath((inside["path"] if inside else PurePath(file).stem).replace("\\", "/"))
    parts = path.parts[:-1] if path.name == "__init__" and len(path.parts) > 1 else path.parts
    return ".".join(parts)


def _number(frame: Frame) -> int:
    """Return a frame's line; 0 where Python did not know it."""
    return int(frame.line) if frame.line.isdigit() else 0
