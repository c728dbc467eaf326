"""The shapes of the API's answers, and the page's types that are made from them."""

from __future__ import annotations

from typing import get_args

from loaderwatch.core.facts import PhaseName
from loaderwatch.core.records import Phase
from tests.web import answer_types


def test_the_pages_types_are_made_from_the_answers() -> None:
    assert answer_types.FILE.read_text(encoding="utf-8") == answer_types.script(), "run `make types`"


def test_a_phase_has_one_name() -> None:
    assert get_args(PhaseName) == tuple(phase.name.lower() for phase in Phase)
