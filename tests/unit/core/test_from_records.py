"""Structs made from records."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from loaderwatch.core.from_records import from_records


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    rank: int
    began_at: float
    ended_at: float | None
    iter_s: float
    name: str = ""
    note: str = "none"


@dataclass(frozen=True)
class Record:
    rank: int
    began_ns: int
    iter_ns: int
    name: str
    ended_ns: int | None = None


RECORD = Record(rank=3, began_ns=5_000_000_000, iter_ns=1_500_000_000, name="train.py")


def test_fields_of_one_name_are_taken_over_and_nanoseconds_become_seconds() -> None:
    assert from_records(Answer, RECORD) == Answer(
        rank=3, began_at=5.0, ended_at=None, iter_s=1.5, name="train.py"
    )


def test_what_is_given_counts_before_the_records_and_the_first_record_before_the_next() -> None:
    row = {"rank": 9, "note": "of the row", "unused": 1}
    found = from_records(Answer, RECORD, row, name="baseline")
    assert (found.rank, found.note, found.name) == (3, "of the row", "baseline")


def test_a_field_that_nothing_gives_is_an_error() -> None:
    with pytest.raises(TypeError, match="began_at"):
        from_records(Answer, {"rank": 1})
