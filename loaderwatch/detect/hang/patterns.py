"""What a rank does alone while others wait for it, by its stack, and what to change: one table."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final, TypeAlias

from loaderwatch.detect.hang.rank_positions import Position
from loaderwatch.detect.measures.stacks import in_forward, in_loop_of, saving

Fits: TypeAlias = "Callable[[Position, Set[str]], bool]"
"""Whether a row fits a rank, by its position and by the words in the names of what only it does."""


@dataclass(frozen=True)
class Pattern:
    """One row: a kind of place, why the others wait, and what to change.

    ``cause`` and ``meets`` are for a rank that came to a collective there alone; ``works`` is the advice for one that is at work
    there, outside any collective.
    """

    fits: Fits
    cause: str
    meets: str
    works: str = ""


_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def _named(*words: str) -> Fits:
    """Return whether one of these words is in a name, as "save" is in ``save_model`` and ``SaveModel``."""
    wanted = frozenset(words)
    return lambda position, found: not wanted.isdisjoint(found)


def _words(position: Position, others: Sequence[Position]) -> Set[str]:
    """Return the words in the names of the user's functions and modules on a stack that no rank elsewhere has on its own.

    The script itself is no such module: its name says what all ranks do.
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
    """Whether the rank has left its training loader, and no stack says that it comes back to it."""
    left = position.place in ("outside", "ended") or position.has_left
    return left and in_loop_of(position.frames, position.rank.process.calls) is not True


def _has_stopped(position: Position, words: Set[str]) -> bool:
    """Whether the rank has left the loop over its epochs, by its stack."""
    comes_back = in_loop_of(position.frames, position.rank.process.calls)
    return comes_back is False and _may_have_stopped(position, words)


def _in_own_code(position: Position, words: Set[str]) -> bool:
    return _meets(position) and bool(position.frames)


def _meets(position: Position) -> bool:
    """Whether the rank is in a collective that is no part of a usual step."""
    return position.collective not in (None, "buffer sync", "backward")


_names_a_save: Final = _named("save", "saves", "saving", "checkpoint", "checkpoints", "ckpt", "snapshot")


def _saves(position: Position, words: Set[str]) -> bool:
    """Whether the rank saves, or gathers a sharded model to save it."""
    gathers = any("state_dict" in frame.function for frame in position.frames)
    return gathers or saving(position.frames) or _names_a_save(position, words)


EARLY_STOP: Final = Pattern(
    _may_have_stopped,
    "Whether the loop goes on was decided on each rank alone: by its own loss (early stopping), a limit of time, or a file.",
    "Decide it once for all ranks: all_reduce the loss, or broadcast rank 0's decision, before the loop ends or goes on.",
)
BRANCH_OF_MODEL: Final = Pattern(
    _in_forward,
    "The ranks took different branches of the model, so the collectives in their passes do not match.",
    "Use the same layers on all ranks in each step. Where that cannot be, set find_unused_parameters=True in DistributedDataParallel;"
    " TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameters that got no gradient.",
)
PATTERNS: Final = (
    Pattern(
        _ends_its_group,
        "One rank already takes down its process group: an error, a `return` or a `break` took it out of the loop.",
        "Read that rank's stderr for a traceback, and let an error end the process at once. Without an error, decide on all ranks together"
        " when the loop ends: all_reduce the loss.",
    ),
    replace(EARLY_STOP, fits=_has_stopped),
    Pattern(
        _saves,
        "One rank alone came to a collective in code that saves a checkpoint.",
        "Take that collective out of `if rank == 0`: all ranks call it, and state_dict() of a sharded model, too. Only writing the file"
        " belongs to one rank.",
        "Let one rank write the checkpoint while the others train on: torch.distributed.checkpoint.async_save, or a copy in host memory"
        " that a thread writes.",
    ),
    Pattern(
        _named(
            "eval",
            "evaluate",
            "evaluation",
            "valid",
            "validate",
            "validation",
            "val",
            "infer",
            "inference",
            "predict",
            "test",
        ),
        "One rank alone came to a collective in an evaluation.",
        "Let all ranks evaluate, or let one do so without any collective: model.module(x) instead of model(x), and metrics that are not"
        " synchronised.",
        "Split the evaluation among all ranks (DistributedSampler), or evaluate saved checkpoints in a job of its own.",
    ),
    Pattern(
        _named(
            "cache",
            "prepare",
            "preprocess",
            "build",
            "index",
            "download",
            "tokenize",
            "tokenise",
            "extract",
            "convert",
            "dataset",
        ),
        "One rank alone came to a collective in code that prepares data.",
        "Let one rank build it before a barrier that all ranks call: `if rank == 0: build()`, then dist.barrier(), and then all ranks read"
        " it.",
        "Build it in a job of its own before training, so that no rank waits for it. A longer timeout of init_process_group only keeps"
        " the job alive meanwhile.",
    ),
    replace(EARLY_STOP, fits=_named("stop", "stopping", "patience", "converged", "plateau")),
    Pattern(
        _named("log", "logs", "report", "metric", "metrics", "summary", "track"),
        "One rank alone came to a collective in code that reports.",
        "Reduce metrics on all ranks, and let one rank only write the result.",
    ),
    BRANCH_OF_MODEL,
    EARLY_STOP,
    Pattern(
        _in_own_code,
        "One rank alone came to this collective: a branch of the loop is taken on some ranks only.",
        "Let all ranks come to that collective, or none: take it out of `if rank == 0`, or of the branch that depends on local data."
        " Where ranks must decide, all_reduce a flag first.",
    ),
)
"""The first row that fits holds: what is certain, then the names on the stack, then where it stands."""


def pattern_of(positions: Sequence[Position], others: Sequence[Position] = ()) -> Pattern | None:
    """Return the first row that fits one of these positions, or None; ``others`` are further ranks of the run.

    Ranks in a backward pass do what all do, so the rest is looked at.
    """
    every = [*positions, *others]
    apart = [
        (position, _words(position, every)) for position in positions if position.collective != "backward"
    ]
    return next((row for row in PATTERNS for position, words in apart if row.fits(position, words)), None)
