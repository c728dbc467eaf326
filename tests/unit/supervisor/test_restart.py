"""Which hang is a reason to restart a job."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from loaderwatch.core.answers import Evidence, Finding
from loaderwatch.core.facts import AT_END
from loaderwatch.supervisor.restart import lasting_hang, pause_s

HANG = Finding(
    id="run.1",
    key="hung:rank0",
    code="hung",
    scenario="S36",
    severity="critical",
    state="firing",
    confidence=0.9,
    rank=0,
    host="box",
    worker=None,
    pid=7,
    sample_indices=[],
    began_at=1000.0,
    ended_at=None,
    title="Training hangs.",
    cause="",
    advice="",
    evidence=[],
    lost_s=None,
    gain_ceiling_ratio=None,
    stacks=[],
)


def lasting(now: float = 1600.0, began_at: float = 900.0, **facts: Any) -> Finding | None:
    finding = msgspec.structs.replace(HANG, **facts)
    return lasting_hang([finding], began_at=began_at, now=now, after_s=600.0)


def test_one_that_lasts_counts_from_where_nothing_moved() -> None:
    assert lasting(now=1600.0) is not None
    assert lasting(now=1599.9) is None


@pytest.mark.parametrize(
    "facts",
    [
        {"code": "input-bound"},
        {"code": "crashed"},
        {"severity": "info"},  # outside the training loops, or slow
        {"state": "acknowledged"},  # somebody looks at it
        {"state": "silenced"},
        {"state": "resolved"},
        {"evidence": [Evidence(label="phase", value=AT_END, unit="text")]},  # its work is done
    ],
)
def test_what_else_is_found_ends_no_job(facts: dict[str, Any]) -> None:
    assert lasting(**facts) is None


def test_the_hang_of_the_attempt_before_does_not_end_the_next() -> None:
    assert lasting(now=5000.0, began_at=1000.1) is None


def test_pauses_grow_up_to_ten_minutes() -> None:
    assert [pause_s(n, 10.0) for n in (1, 2, 3, 6, 7, 8, 900)] == [10, 20, 40, 320, 600, 600, 600]
    assert pause_s(1, 3600.0) == 3600.0  # who wants longer ones has them
