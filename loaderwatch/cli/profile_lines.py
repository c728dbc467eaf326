"""The printed profile: which lines of the user's code the time goes to, and what they wait for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Final

from loaderwatch.core.answers import Param, Profile, ProfileLine, ProfilePartName, Text, ThreadStateName
from loaderwatch.core.printable import columns, fitted
from loaderwatch.core.records import LEAST_SAMPLES, PROFILE_S
from loaderwatch.texts import in_own_language, own_language, say
from loaderwatch.texts.formats import percent

MOST_LINES: Final = 12
_WIDTH: Final = 80  # columns of a terminal
_MOST_STATES: Final = 4  # in a list; more would become "and 2 more"
_LEAST_STATE: Final = 0.1
"""Smallest share of a line's samples for which its state is printed."""
_LEAST_REST: Final = 0.005
"""A smaller rest would be printed as 0 %."""
_LEAST_SPEEDUP: Final = 1.05
"""A line that could save less is shown without its speed-up."""
_GAP: Final = "  "


def profile_lines(profile: Profile, most_lines: int = MOST_LINES) -> list[str]:
    """Return the printed lines of a profile that has samples: the headline, its largest lines, the rest."""
    said = [_headline(profile)]
    if profile.samples < LEAST_SAMPLES:
        said.append(in_own_language("profile-few", fewest=LEAST_SAMPLES))
    shown = profile.lines[:most_lines]
    rest = 1 - sum(line.share for line in shown)
    after = []
    if shown and rest >= _LEAST_REST:
        more = len(profile.lines) - len(shown)
        after.append(in_own_language("profile-rest", rest_ratio=rest, more=more))
    if profile.unread:
        after.append(in_own_language("profile-unread", unread=profile.unread))
    table = ["", *_table(shown, profile.of)] if shown else []
    return [*_wrapped(said), *table, *_wrapped(after)]


def _wrapped(texts: list[str]) -> list[str]:
    return [printed for text in texts for printed in wrap(text, _WIDTH)]


def why_empty(of: ProfilePartName, unread: int) -> str:
    """Return why a part's profile has no stack, and what to do. ``unread``: its samples without a stack."""
    message = "profile-unreadable" if unread else "profile-empty"
    return in_own_language(message, of=of, **({"unread": unread} if unread else {}))


def short_files(files: Iterable[str]) -> dict[str, str]:
    """Return a short name for each file: its last parts, as few as distinguish it from the others."""
    parts = {file: re.split(r"[/\\]", file) for file in files}
    return {file: "/".join(own[-_needed(own, parts.values()) :]) for file, own in parts.items()}


def _needed(own: list[str], paths: Iterable[list[str]]) -> int:
    others = [path for path in paths if path is not own]
    lengths = range(1, len(own))
    return next((n for n in lengths if all(path[-n:] != own[-n:] for path in others)), len(own))


def _headline(profile: Profile) -> str:
    is_timed = profile.start is not None and profile.end is not None
    return in_own_language(
        "profile-headline",
        of=profile.of,
        samples=profile.samples,
        ranks=len(profile.ranks),
        rank=profile.ranks[0] if len(profile.ranks) == 1 else None,
        seconds_s=(profile.end or 0) - (profile.start or 0) + PROFILE_S if is_timed else None,
        states=_states(profile.states, _LEAST_REST),
    )


def _states(states: Mapping[ThreadStateName, float], least: float) -> Sequence[Text]:
    """Return the largest shares of what the threads do, in order."""
    largest = sorted(states.items(), key=lambda item: -item[1])[:_MOST_STATES]
    return [
        Text("profile-state", {"share_ratio": share, "state": state})
        for state, share in largest
        if share >= least
    ]


def _table(lines: list[ProfileLine], of: str) -> list[str]:
    """Return a row per line, with its head; what does not fit beside the numbers is put below them."""
    short = short_files({line.file for line in lines})
    rows = [
        [percent(line.share, own_language()), _interval(line), _each(line, of), *_place(line, short)]
        for line in lines
    ]
    head = [say(Text("profile-columns", {}, part), own_language()) for part in ("share", "interval", "each")]
    head.append(say(Text("profile-columns", {}, "line"), own_language()))
    used = [column for column in range(3) if any(row[column] for row in rows)]
    widths = {column: max(columns(row[column]) for row in [head, *rows]) for column in used}
    return [printed for row in [head, *rows] for printed in _row(row, widths)]


def _row(cells: list[str], widths: Mapping[int, int]) -> list[str]:
    numbers = "".join(
        " " * (width - columns(cells[column])) + cells[column] + _GAP for column, width in widths.items()
    )
    indent = columns(numbers)
    printed = [numbers + fitted(cells[3], _WIDTH - indent)]
    for segment in cells[4:]:
        cut = fitted(segment, _WIDTH - indent)
        if columns(printed[-1]) + len(_GAP) + columns(cut) <= _WIDTH:
            printed[-1] += _GAP + cut
        else:
            printed.append(" " * indent + cut)
    return printed


def _interval(line: ProfileLine) -> str:
    return in_own_language("profile-interval", low_percent=100 * line.low, high_percent=100 * line.high)


def _each(line: ProfileLine, of: str) -> str:
    """Return the line's time per sample of the dataset, else per batch or step; "" if unknown."""
    for unit, each_s in (
        ("sample", line.per_sample_s),
        ("step" if of == "step" else "batch", line.per_batch_s),
    ):
        if each_s is not None:
            return in_own_language("profile-each", each_s=each_s, unit=unit)
    return ""


def _place(line: ProfileLine, short: Mapping[str, str]) -> list[str]:
    where: dict[str, Param] = {"file": short[line.file], "line": line.line, "function": line.function}
    states = in_own_language("profile-states", states=_states(line.states, _LEAST_STATE))
    calls = [] if line.calls is None else [f"→ {line.calls}"]
    times = line.speedup or 1.0
    without = [in_own_language("profile-without-line", times=times)] if times >= _LEAST_SPEEDUP else []
    return [say(Text("code-line", where), own_language()), *calls, states, *without]
