"""What a rank does alone while others wait for it, by its stack: one table of patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final, TypeAlias

from loaderwatch.detect.hang.rank_positions import Position
from loaderwatch.detect.measures.stacks import in_forward, in_loop_of, saving

# Whether a row fits a rank, by its position and by the words in the names of what only this rank does.
Fits: TypeAlias = "Callable[[Position, Set[str]], bool]"


@dataclass(frozen=True)
class Pattern:
    """One row: a kind of place, and the rules that say why the others wait and what to change.

    ``rule``: for a rank that came to a collective there alone. ``works``: for a rank at work there, outside
    any collective; "" if there is no such rule.
    """

    fits: Fits
    rule: str
    works: str = ""


_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def _named(*words: str) -> Fits:
    """Return a test for one of these words in a name, as "save" in ``save_model`` and ``SaveModel``."""
    wanted = frozenset(words)
    return lambda position, found: not wanted.isdisjoint(found)


def _words(position: Position, others: Sequence[Position]) -> Set[str]:
    """Return the words in the names of the user's functions and modules that only this place has on a stack.

    The script itself is left out: its name says what all ranks do.
    """
    elsewhere = {
        (frame.file, frame.function)
        for other in others
        if other.collective != position.collective
        for frame in other.frames
    }
    own = [frame for frame in position.frames if not frame.library]
    apart = [frame for frame in own if (frame.file, frame.function) not in elsewhere]
    modules = [PurePath(frame.file).stem for frame in apart if frame.file != own[-1].file]
    names = [*(frame.function for frame in apart), *modules]
    return {word.lower() for name in names for word in _WORD.findall(name)}


def _ends_its_group(position: Position, words: Set[str]) -> bool:
    return position.collective == "destroy_process_group"


def _in_forward(position: Position, words: Set[str]) -> bool:
    return _meets(position) and in_forward(position.frames)


def _may_have_stopped(position: Position, words: Set[str]) -> bool:
    """Whether the rank has left its training loader, and no stack shows that it comes back."""
    has_left = position.place in ("outside", "ended") or position.has_left
    return has_left and in_loop_of(position.frames, position.rank.process.calls) is not True


def _has_stopped(position: Position, words: Set[str]) -> bool:
    """Whether the rank's stack shows that it left the loop over its epochs."""
    comes_back = in_loop_of(position.frames, position.rank.process.calls)
    return comes_back is False and _may_have_stopped(position, words)


def _in_own_code(position: Position, words: Set[str]) -> bool:
    return _meets(position) and bool(position.frames)


def _meets(position: Position) -> bool:
    """Whether the rank is in a collective that is not part of a usual step."""
    return position.collective not in (None, "buffer sync", "backward")


_names_a_save: Final = _named("save", "saves", "saving", "checkpoint", "checkpoints", "ckpt", "snapshot")
_evaluates: Final = _named(
    *("eval", "evaluate", "evaluation", "valid", "validate", "validation", "val", "infer", "inference"),
    *("predict", "test"),
)
_prepares: Final = _named(
    *("cache", "prepare", "preprocess", "build", "index", "download", "tokenize", "tokenise", "extract"),
    *("convert", "dataset"),
)
_reports: Final = _named("log", "logs", "report", "metric", "metrics", "summary", "track")


def _saves(position: Position, words: Set[str]) -> bool:
    """Whether the rank saves, or gathers a sharded model to save it."""
    gathers = any("state_dict" in frame.function for frame in position.frames)
    return gathers or saving(position.frames) or _names_a_save(position, words)


EARLY_STOP: Final = Pattern(_may_have_stopped, "rank-left-the-loop")
BRANCH_OF_MODEL: Final = Pattern(_in_forward, "model-branches-differ")
# The first row that fits counts: first what is certain, then names on the stack, then the place of the rank.
PATTERNS: Final = (
    Pattern(_ends_its_group, "rank-destroys-its-group"),
    replace(EARLY_STOP, fits=_has_stopped),
    Pattern(_saves, "checkpoint-by-one-rank", works="others-wait-for-checkpoint"),
    Pattern(_evaluates, "evaluation-by-one-rank", works="others-wait-for-evaluation"),
    Pattern(_prepares, "data-preparation-by-one-rank", works="others-wait-for-data-preparation"),
    replace(EARLY_STOP, fits=_named("stop", "stopping", "patience", "converged", "plateau")),
    Pattern(_reports, "report-by-one-rank"),
    BRANCH_OF_MODEL,
    EARLY_STOP,
    Pattern(_in_own_code, "collective-by-one-rank"),
)


def pattern_of(positions: Sequence[Position], others: Sequence[Position] = ()) -> Pattern | None:
    """Return the first row that fits one of these positions, or None; ``others``: further ranks of the run.

    Ranks in a backward pass do what all ranks do, so they are left out.
    """
    everyone = [*positions, *others]
    apart = [(p, _words(p, everyone)) for p in positions if p.collective != "backward"]
    return next((row for row in PATTERNS for p, words in apart if row.fits(p, words)), None)
