"""The part of a summary that a page gets if it knows an earlier one."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from loaderwatch.server.live.event_stream import STANDING, Changes
from tests.fakes.summaries import rank_row, summary_with

SIZE = 1024


def told(changes: Changes, seen: int) -> tuple[dict[str, Any], dict[str, Any]]:
    found = changes.since(seen)
    assert found is not None
    summary, more = found
    extra: dict[str, Any] = json.loads(b"{" + more.removeprefix(b",") + b"}")
    return json.loads(summary), extra


def test_the_first_word_is_everything_but_how_fast_each_rank_goes() -> None:
    changes = Changes()
    rows = [rank_row(0), rank_row(1)]
    changes.note(summary_with(rows), 7)
    summary, extra = told(changes, 0)
    assert summary["verdict"]["title"] == "Keeps up."
    assert summary["loaders"] == []
    assert [set(row) for row in summary["ranks"]] == [set(STANDING)] * 2
    assert extra == {"worst_rank": 1}


def test_a_tick_is_as_short_with_a_thousand_ranks_as_with_two() -> None:
    """Every rank goes on all the time: none of that is in it."""
    sizes = []
    for count in (2, SIZE):
        changes = Changes()
        changes.note(summary_with([rank_row(n) for n in range(count)]), 1)
        changes.note(
            summary_with(
                [rank_row(n, step=101, seen_at=1001.0) for n in range(count)], steps=101, now=1001.0
            ),
            2,
        )
        summary, extra = told(changes, 1)
        assert summary == {"steps": 101, "now": 1001.0}
        assert extra == {"partial": True}
        sizes.append(len(json.dumps(summary)))
    assert sizes[0] == sizes[1]


def test_a_rank_that_ends_is_told_alone() -> None:
    changes = Changes()
    rows = [rank_row(n) for n in range(SIZE)]
    changes.note(summary_with(rows), 1)
    rows[700] = rank_row(700, state="crashed", exit="SIGKILL")
    changes.note(summary_with(rows), 2)
    summary, _ = told(changes, 1)
    assert [(row["rank"], row["state"], row["exit"]) for row in summary["ranks"]] == [
        (700, "crashed", "SIGKILL")
    ]
    assert "loaders" not in summary


def test_a_page_that_was_slow_hears_all_that_it_missed() -> None:
    changes = Changes()
    changes.note(summary_with([rank_row(0)]), 1)
    changes.note(summary_with([rank_row(0)], steps=101), 2)
    changes.note(summary_with([rank_row(0)], steps=101, epochs=2), 3)
    assert told(changes, 1)[0] == {"steps": 101, "epochs": 2}
    assert told(changes, 2)[0] == {"epochs": 2}


def test_what_is_put_together_is_the_summary() -> None:
    """Snapshot and ticks of a changing run, merged as by the page, equal the server's full summary."""
    changes = Changes()
    known: dict[str, Any] = {}
    ranks: dict[int, dict[str, Any]] = {}
    for number in range(1, 30):
        rows = [
            rank_row(n, watched=(n + number) % 5 > 0, phases_missing="model" if n < number else None)
            for n in range(9)
        ]
        summary = summary_with(
            rows, steps=number, epochs=number // 7, state="hung" if number % 4 == 0 else "live"
        )
        changes.note(summary, number)
        part, _ = told(changes, number - 1)
        known |= part
        ranks |= {row["rank"]: row for row in part.get("ranks", [])}
        whole = json.loads(msgspec.json.encode(summary))
        assert {name: known[name] for name in whole if name != "ranks"} == {
            n: v for n, v in whole.items() if n != "ranks"
        }
        assert [ranks[row["rank"]] for row in whole["ranks"]] == [
            {n: row[n] for n in STANDING} for row in whole["ranks"]
        ]


def test_another_attempt_other_ranks_and_the_end_are_told_whole() -> None:
    changes = Changes()
    changes.note(summary_with([rank_row(0), rank_row(1)]), 1)
    changes.note(summary_with([rank_row(0)]), 2)
    assert told(changes, 1)[1] == {"worst_rank": 0}
    changes.note(summary_with([rank_row(0)], attempt=2), 3)
    assert told(changes, 2)[1] == {"worst_rank": 0}
    changes.note(summary_with([rank_row(0)], attempt=2, state="finished"), 4)
    assert changes.since(3) is None  # its text, in which every rank has all of its numbers
    changes.note(None, 5)
    assert changes.since(4) is None
