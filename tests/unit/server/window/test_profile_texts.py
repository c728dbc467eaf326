from __future__ import annotations

import pytest

from loaderwatch.core.facts import ProfileStack
from loaderwatch.core.records import ProfilePart
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.server.window import profile_texts
from loaderwatch.server.window.builder import WindowBuilder
from loaderwatch.server.window.profile_texts import ProfileTexts
from tests.fakes.profiles import STACKS, TEXTS, ZIP, counts
from tests.fakes.runs import SECOND, T0, envelope, process


def test_a_window_knows_what_its_counts_are_of_and_does_not_change() -> None:
    builder = WindowBuilder("run-1")
    rows = counts([ZIP, ZIP, 0], [3, 4, 2], rank=[0, 1, 1])
    both = [process(0, 2), process(1, 2)]
    builder.add(envelope(1, processes=both, tables={"profile": rows}, profile_stacks=STACKS[:1]))
    window = builder.window()
    later = counts([8], [1], t_ns=T0 + SECOND)
    fresh = ProfileStack(id=8, text=TEXTS[ZIP])
    builder.add(envelope(2, processes=both, tables={"profile": later}, profile_stacks=[fresh, *STACKS]))
    ranks = RunEvidence(window).ranks
    assert [ranks[rank].profile(ProfilePart.FETCH).samples for rank in (0, 1)] == [3, 4]
    assert ranks[1].profile(ProfilePart.FETCH).unread == 2
    assert ranks[0].profile(ProfilePart.FETCH) is ranks[0].profile(ProfilePart.FETCH)
    assert ranks[0].profile(ProfilePart.FETCH, loader=1).samples == 0
    assert dict(window.ranks[0].profile_texts) == {ZIP: TEXTS[ZIP]}
    newer = RunEvidence(builder.window()).ranks[0].profile(ProfilePart.FETCH)
    assert [stack.samples for stack in newer.stacks] == [4]


def test_repeated_texts_take_no_memory() -> None:
    builder = WindowBuilder("run-1")
    builder.add(envelope(1, profile_stacks=STACKS))
    held = builder.held_bytes()
    assert held >= sum(map(len, TEXTS.values()))
    first = builder.window().ranks[0].profile_texts
    builder.add(envelope(2))
    assert builder.window().ranks[0].profile_texts is first
    builder.add(envelope(3, profile_stacks=STACKS))
    assert builder.held_bytes() == held


def test_texts_without_counts_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_texts, "MOST_BYTES", 100)
    texts = ProfileTexts()
    for number in range(1, 11):
        texts.take([ProfileStack(id=number, text="x" * 10)], lambda: {1, 2})
    assert list(texts.shown()) == list(range(1, 11))
    texts.take([ProfileStack(id=3, text="y" * 10), ProfileStack(id=11, text="x" * 10)], lambda: {1, 2})
    assert list(texts.shown()) == [1, 2, 8, 9, 10, 3, 11]
    assert texts.shown()[3] == "y" * 10
    assert texts.held_bytes == 70
    texts.take([ProfileStack(id=12, text="z" * 70)], lambda: set(range(20)))
    assert (list(texts.shown()), texts.held_bytes) == ([12], 70)


def test_a_live_run_holds_a_limited_number_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_texts, "MOST_BYTES", 5_000)
    builder = WindowBuilder("run-1")
    for seq in range(1, 100):
        fresh = [ProfileStack(id=1000 * seq + n, text=TEXTS[ZIP]) for n in range(3)]
        rows = counts([1000, ZIP], [1, 1], t_ns=T0 + seq * SECOND)
        known = STACKS[:1] if seq == 1 else []
        builder.add(envelope(seq, tables={"profile": rows}, profile_stacks=[*known, *fresh]))
    held = builder.window().ranks[0].profile_texts
    assert ZIP in held
    assert 1000 * 99 in held
    assert 2000 not in held
    assert sum(map(len, held.values())) <= 5_000
