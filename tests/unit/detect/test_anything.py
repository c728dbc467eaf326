"""Unknown values, nonsense and odd mixtures give readable findings or none, but never an error."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaderwatch.advise.whatif import what_if
from loaderwatch.core.facts import ProcessState, SpanInfo
from loaderwatch.core.records import TABLES, UNKNOWN, Phase
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import SEVERITIES
from loaderwatch.detect.incidents.tracker import Tracker
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.window import RunWindow
from tests.unit.detect import stacks
from tests.unit.detect.build import RankBuilder, S, loader, run, table, verdict_now

TEXTS = [
    "",
    "garbage",
    stacks.WORKER,
    stacks.MAIN_WAITS,
    stacks.QUEUE,
    stacks.DEBUGGER,
    stacks.main_in("barrier"),
    stacks.main_in("_sync_buffers"),
    stacks.main_in("backward"),
]
PHASES = [phase.name.lower() for phase in Phase]


def chance(random: np.random.Generator, *values: Any) -> Any:
    return values[int(random.integers(len(values)))]


def some_rank(random: np.random.Generator, number: int, world: int) -> RankBuilder:
    workers = chance(random, None, 0, 1, 2, 5)
    builder = RankBuilder(
        number,
        world,
        loaders=[
            loader(
                num_workers=workers,
                pin_memory=chance(random, None, True, False),
                iterable_dataset=chance(random, None, True, False),
                batches=chance(random, None, 3, 500),
            ),
            loader(loader=1, role=chance(random, "train", "eval"), prefetch_factor=None),
        ],
    )
    builder.state = chance(random, "live", "live", "live", "finished", "crashed")
    builder.exit = chance(random, None, "SIGKILL", "uncaught RuntimeError: Bus error", "Too many open files")
    builder.has_model, builder.has_optimizer = bool(random.random() < 0.3), bool(random.random() < 0.3)
    for _ in range(int(random.integers(0, 120))):
        wait, step = random.exponential(0.1), random.exponential(0.1)
        before_model = chance(random, UNKNOWN, int(step * random.random() * S))
        builder.step(float(wait), float(step), loader=int(random.integers(0, 2)), h2d_ns=before_model)
        builder.fetch(int(random.integers(-1, 5)), float(random.exponential(0.2)), cpu=float(random.random()))
        if random.random() < 0.1:
            builder.add(
                "epoch_begins",
                **{c.name: int(random.integers(0, 4 * S)) for c in TABLES["epoch_begins"][1:4]},
            )
            builder.rows["epoch_begins"][-1].update(
                loader=0,
                epoch=len(builder.rows["epoch_begins"]),
                request_ns=builder.now_ns,
                iter_ns=S,
                first_wait_ns=S,
            )
        if random.random() < 0.1:
            builder.add(
                "epoch_ends",
                loader=0,
                epoch=len(builder.rows["epoch_ends"]),
                teardown_ns=S,
                batches=2,
                ended_by=2,
            )
        if random.random() < 0.2:
            builder.process(
                worker=int(random.integers(-1, 3)), pid=300, cpu=chance(random, math.nan, 0.5, 3.0)
            )
            builder.rows["processes"][-1].update(
                fds=float(random.integers(0, 300)),
                fd_limit=256.0,
                anonymous_bytes=float(random.integers(0, 10**10)),
                pss_bytes=float(random.integers(0, 10**10)),
                main_cpu_ratio=chance(random, math.nan, 0.4),
                pin_cpu_ratio=chance(random, math.nan, 0.4),
            )
            builder.add(
                "gpus",
                utilization_ratio=float(random.random()),
                power_w=50.0,
                power_limit_w=400.0,
                sm_clock_hz=float(random.exponential(1e9)),
                throttle_reasons=int(random.integers(0, 512)),
                other_pids=int(random.integers(0, 3)),
            )
            builder.add(
                "collections", worker=int(random.integers(-1, 2)), duration_ns=int(random.exponential(S))
            )
            builder.add("gpu_waits", loader=0, starved_ns=S, gpu_step_ns=S)
    builder.open(
        chance(random, *PHASES),
        float(random.exponential(60)),
        loader=chance(random, None, 0, 1, 9),
        batch=chance(random, None, 0, 7),
        epoch=chance(random, None, 0, 1),
        awaited_worker=chance(random, None, 0, 1),
        phase_name=chance(random, None, "save"),
        wchan=chance(random, None, "0", "futex_do_wait"),
    )
    for worker in range(int(random.integers(0, 4))):
        builder.worker(
            worker,
            chance(random, "idle", "fetch", "collate", "starting"),
            float(random.exponential(60)),
            sample_age=chance(random, None, 5.0, 100.0),
            sample_index=chance(random, None, 3),
            os_state=chance(random, None, "R", "S", "D", "T", "Z"),
            alive=bool(random.random() < 0.9),
            pid=chance(random, 300, 301),
        )
    builder.stack(-1, 100 + number, chance(random, *TEXTS)).stack(
        0, 200 + 10 * number, chance(random, *TEXTS)
    )
    if random.random() < 0.1:
        builder.span = None
    return builder


def with_unknowns(random: np.random.Generator, builder: RankBuilder) -> None:
    """Forget some of what was recorded."""
    share = chance(random, 0.0, 0.02, 0.5)
    keep = {"rank", "loader", "request_ns", "t_ns", "batch", "epoch"}
    for name, rows in builder.rows.items():
        kinds = {column.name: column.dtype for column in TABLES[name]}
        for row in rows:
            for column in list(row):
                if column not in keep and random.random() < share:
                    row[column] = UNKNOWN if kinds[column] == "i8" else math.nan


def window_of(seed: int) -> RunWindow:
    random = np.random.default_rng(seed)
    world = int(random.integers(1, 5))
    builders = [some_rank(random, number, world) for number in range(world)]
    for builder in builders:
        with_unknowns(random, builder)
    host = {
        "shm_total_bytes": float(random.exponential(1e8)),
        "memory_available_bytes": float(random.exponential(1e9)),
        "memory_limit_bytes": float(random.exponential(1e9)),
        "memory_used_bytes": float(random.exponential(1e9)),
        "oom_kills": chance(random, 0.0, 3.0),
    }
    return run(
        *builders,
        cpus=int(random.integers(1, 64)),
        busy=chance(random, 0.1, 1.0, math.nan),
        host=chance(random, {}, host),
    )


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_detectors_take_anything(seed: int) -> None:
    window = window_of(seed)
    findings = detect(
        RunEvidence(window, Limits(hang_floor_s=chance(np.random.default_rng(seed), 1.0, 30.0)))
    )
    keys = [finding.key for finding in findings]
    assert len(keys) == len(set(keys))
    for finding in findings:
        text = " ".join([finding.title, finding.cause, finding.advice])
        assert "nan" not in text.lower().split(), text
        assert "None" not in text, text
        assert finding.title.endswith("."), finding.title
        assert finding.severity in SEVERITIES
        assert 0 <= finding.confidence <= 1
        assert finding.began_ns <= window.now_ns
        assert finding.lost_s is None or finding.lost_s >= 0
        gain = finding.gain_ceiling_ratio
        assert gain is None or 0 <= gain <= 1
        assert msgspec.json.decode(msgspec.json.encode(finding)) is not None
        for item in finding.evidence:
            assert item.unit in {"ratio", "s", "count", "bytes", "index", "text", "per_s"}
            assert not (isinstance(item.value, float) and math.isnan(item.value)), item
    assert verdict_now(window, findings).title
    Tracker("run").update(findings, window.now_ns)
    what_if(RunEvidence(window), 0, 0)


@pytest.mark.parametrize("state", ["live", "finished"])
def test_a_run_that_has_recorded_nothing(state: ProcessState) -> None:
    builder = RankBuilder()
    builder.state = state
    window = run(builder)
    assert detect(RunEvidence(window)) == []
    assert verdict_now(window, []).title


def test_a_run_without_ranks() -> None:
    full = run(RankBuilder())
    empty = replace(full, ranks={})
    assert detect(RunEvidence(empty)) == []
    assert verdict_now(empty, []).title


def test_the_builder_makes_whole_tables() -> None:
    assert set(table("steps", [{"request_ns": 1}])) == {column.name for column in TABLES["steps"]}
    assert isinstance(RankBuilder().open("wait", 1.0).span, SpanInfo)
