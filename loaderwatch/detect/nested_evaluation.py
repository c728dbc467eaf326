"""Separates training from evaluation if one of them runs inside a step of the other.

Frameworks evaluate before the training loop requests its next batch: Lightning at the end of an epoch, a
Trainer every ``eval_steps``. By the clock this lies within a training step, but it is not the model's work.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.columns import Columns, Ints, known_ns
from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.records import UNKNOWN


def steps_apart(
    loaders: Sequence[LoaderInfo], steps: Columns, epoch_begins: Columns, epoch_ends: Columns
) -> Columns:
    """Return the table ``steps`` with training and evaluation separated.

    Passes of the evaluation are subtracted from ``nested_ns`` of the training step around them. The own work
    of that step, ``step_ns``, is cut to a usual step of its loader: the rest is metrics, checkpoints and
    other work for the evaluation. If every step evaluates there is no usual one, and ``step_ns`` stays.

    An evaluation that is left early has a last step that goes on, by the clock, until the next evaluation.
    The training in between is subtracted from it.

    The same object is returned if neither runs inside a step of the other.
    """
    evaluating = [info.loader for info in loaders if info.role != "train"]
    if not evaluating or len(evaluating) == len(loaders):
        return steps
    training = [info.loader for info in loaders if info.role == "train"]
    in_loop = (steps["off_main_thread"] != 1) & (steps["wait_ns"] != UNKNOWN)
    theirs, ours = _of(steps["loader"], evaluating) & in_loop, _of(steps["loader"], training) & in_loop
    if not theirs.any() or not ours.any():
        return steps
    step_ns, nested_ns = steps["step_ns"].copy(), steps["nested_ns"].copy()
    for rows, others, numbers in ((ours, theirs, evaluating), (theirs, ours, training)):
        began_ns, took_ns = _pieces(numbers, steps, others, epoch_begins, epoch_ends)
        holds, inside_ns = _inside(steps, rows, began_ns, took_ns)
        alone = len(loaders) - len(numbers) == 1
        left_ns = np.zeros_like(inside_ns) if alone else known_ns(steps["nested_ns"][holds]) - inside_ns
        nested_ns[holds] = np.maximum(0, left_ns)
        if rows is ours:
            _cap(step_ns, steps["loader"], rows, holds)
    return {**steps, "step_ns": step_ns, "nested_ns": nested_ns}


def _inside(
    steps: Columns, rows: NDArray[np.bool_], began_ns: Ints, took_ns: Ints
) -> tuple[NDArray[np.bool_], Ints]:
    """Return which steps contain pieces, shape (steps,), and for each of these the pieces' nanoseconds."""
    rows = rows & (steps["step_ns"] != UNKNOWN)
    delivered_ns = steps["request_ns"] + known_ns(steps["wait_ns"])
    ended_ns = delivered_ns + known_ns(steps["step_ns"]) + known_ns(steps["nested_ns"])
    first, last = (np.searchsorted(began_ns, times) for times in (delivered_ns, ended_ns))
    holds = rows & (last > first)
    sums_ns = np.concatenate(([0], np.cumsum(took_ns)))
    return holds, (sums_ns[last] - sums_ns[first])[holds]


def _cap(step_ns: Ints, loaders: Ints, rows: NDArray[np.bool_], holds: NDArray[np.bool_]) -> None:
    """Cut ``step_ns`` in place: no step that evaluates is longer than a usual one of its loader."""
    known = rows & (step_ns != UNKNOWN)
    for number in set(loaders[holds].tolist()):
        own = known & (loaders == number)
        usual_ns = step_ns[own & ~holds]
        if usual_ns.size:
            evaluating = own & holds
            step_ns[evaluating] = np.minimum(step_ns[evaluating], int(np.median(usual_ns)))


def passes_s(
    loaders: Sequence[int],
    steps: Columns,
    epoch_begins: Columns,
    epoch_ends: Columns,
    since_ns: Ints,
    until_ns: Ints,
) -> NDArray[np.float64]:
    """Return the seconds of passes over these loaders in each interval (ns UTC), shape (intervals,)."""
    rows = _of(steps["loader"], loaders) & (steps["off_main_thread"] != 1) & (steps["wait_ns"] != UNKNOWN)
    began_ns, took_ns = _pieces(loaders, steps, rows, epoch_begins, epoch_ends)
    sums_ns = np.concatenate(([0], np.cumsum(took_ns)))
    first, last = (np.searchsorted(began_ns, times) for times in (since_ns, until_ns))
    result: NDArray[np.float64] = (sums_ns[last] - sums_ns[first]) / 1e9
    return result


def _pieces(
    loaders: Sequence[int],
    steps: Columns,
    rows: NDArray[np.bool_],
    epoch_begins: Columns,
    epoch_ends: Columns,
) -> tuple[Ints, Ints]:
    """Return when each piece of these loaders' passes began and how long it took, in ns, ordered by time.

    A piece is a wait with its step, an ``iter(loader)``, or the end of a pass.
    """
    begun, ended = _of(epoch_begins["loader"], loaders), _of(epoch_ends["loader"], loaders)
    began_ns = np.concatenate(
        (steps["request_ns"][rows], epoch_begins["request_ns"][begun], epoch_ends["request_ns"][ended])
    )
    took_ns = np.concatenate(
        (
            (known_ns(steps["wait_ns"]) + known_ns(steps["step_ns"]))[rows],
            known_ns(epoch_begins["iter_ns"][begun]),
            known_ns(epoch_ends["teardown_ns"][ended]),
        )
    )
    order = np.argsort(began_ns, kind="stable")
    return began_ns[order], took_ns[order]


def _of(numbers: Ints, loaders: Sequence[int]) -> NDArray[np.bool_]:
    mask = np.zeros(numbers.size, dtype=bool)
    for loader in loaders:
        mask |= numbers == loader
    return mask
