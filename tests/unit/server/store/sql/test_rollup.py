"""Which stretches of a range a chart reads from which level."""

import random

import pytest

from loaderwatch.server.store.metrics import LEVELS
from loaderwatch.server.store.sql.rollup import MAX_PIECES, Piece, pieces

FINEST = LEVELS[0].ns


def reads(piece: Piece, t_ns: int) -> bool:
    return piece.start_ns <= t_ns < piece.end_ns and not any(a <= t_ns < b for a, b in piece.without)


@pytest.mark.parametrize("seed", range(20))
def test_each_moment_is_read_once_and_from_a_level_only_where_it_is_summed(seed: int) -> None:
    chance = random.Random(seed)
    end = 4 * LEVELS[2].ns
    finest = {t for t in range(0, end, FINEST) if chance.random() < chance.choice((0.0, 0.01, 0.3))}
    dirty = {(0, "steps"): finest}
    for index in (1, 2):
        width = LEVELS[index].ns
        begins = {t // width * width for t in finest}
        dirty[index, "steps"] = begins | {t for t in range(0, end, width) if chance.random() < 0.2}
    for level in (-1, 0, 1, 2):
        found = pieces(0, end, level, "steps", dirty)
        of_levels = [piece.level for piece in found if piece.level is not None]
        assert len(of_levels) == len(set(of_levels))  # a table is read once
        assert len(found) - len(of_levels) <= MAX_PIECES
        for t_ns in range(0, end, FINEST):
            (piece,) = [each for each in found if reads(each, t_ns)]
            if piece.level is not None:
                index = LEVELS.index(piece.level)
                assert index <= level
                assert t_ns // piece.level.ns * piece.level.ns not in dirty[index, "steps"]


def test_what_is_read_is_said_in_sql() -> None:
    assert Piece(None, 10, 20).holds("t_ns") == "t_ns >= 10 AND t_ns < 20"
    assert (
        Piece(LEVELS[0], 10, 90, ((20, 30), (40, 50))).holds("t_ns")
        == "t_ns >= 10 AND t_ns < 90 AND NOT (t_ns >= 20 AND t_ns < 30) AND NOT (t_ns >= 40 AND t_ns < 50)"
    )
    assert pieces(20, 20, 2, "steps", {}) == []
