"""How closely processes are read: a training's helpers only if its loaders do not work for it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from loaderwatch.core.clock import wall_ns
from loaderwatch.core.records import Phase
from loaderwatch.core.wire import pack_table
from loaderwatch.streamer.process_rows import MemberSampler
from tests.unit.streamer.test_stacks import make

SECOND = 10**9


def helpers_known(tmp_path: Path, phase: Phase, ages: tuple[int, ...]) -> list[bool]:
    """For each age of the span in seconds: whether the row tells of other threads."""
    roster, ring = make(tmp_path)
    since = time.monotonic_ns()
    ring.set_span(phase, since)
    sampler, found = MemberSampler(), []
    for age in ages:
        sampler.sample(roster, since + age * SECOND, wall_ns() - time.monotonic_ns())
        columns = pack_table("processes", sampler.take_rows())
        found.append(not np.isnan(np.frombuffer(columns["threads_switches_per_s"])[0]))
    assert sampler.take_rows() == []
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no /proc")
def test_helpers_are_read_of_a_span_that_is_old(tmp_path: Path) -> None:
    """The first reading gives no rate."""
    assert helpers_known(tmp_path, Phase.OUTSIDE, (1, 2, 4, 5)) == [False, False, False, True]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no /proc")
def test_and_not_while_its_workers_work_for_it(tmp_path: Path) -> None:
    assert helpers_known(tmp_path, Phase.WAIT, (4, 5, 6)) == [False, False, False]


def test_the_facts_of_an_old_span_are_fresh(tmp_path: Path) -> None:
    roster, _ = make(tmp_path)
    sampler = MemberSampler()
    now = time.monotonic_ns()
    (member,) = roster.mains.values()
    assert sampler.of_span(member, now) is None, "nothing was read yet"
    fresh = sampler.of_span(member, now - 2 * SECOND)
    assert fresh is not None
    assert member.pid == os.getpid()
