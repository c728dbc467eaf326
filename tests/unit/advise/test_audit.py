"""The audit over facts made by hand: every check says something where it should, and nothing beside it."""

from __future__ import annotations

import inspect
import math
import re
from typing import Any

import pytest

from loaderwatch.advise.audit import SAYS_HOW_MANY, audit, not_told
from loaderwatch.advise.facts import Facts, HostFacts, LoaderFacts, facts_of, facts_of_script
from loaderwatch.core.answers import Advice, AlertState, Finding
from loaderwatch.core.facts import LoaderProbe, ProcessInfo, ScriptReport
from loaderwatch.detect.input_bound.rules import RULES
from tests.unit.detect.build import RankBuilder, loader, run
from tests.unit.detect.epoch_boundary.test_detector import anew, epochs


def process(rank: int = 0, world_size: int = 1, **fields: Any) -> ProcessInfo:
    base: dict[str, Any] = {
        "pid": 100 + rank,
        "rank": rank,
        "local_rank": rank,
        "world_size": world_size,
        "started_ns": 0,
        "torch": "2.13.0+cpu",
    }
    return ProcessInfo(**(base | fields))


def facts(
    *loaders: LoaderFacts, cpus: float = 16, world_size: int = 1, torch: str = "2.13.0", **fields: Any
) -> Facts:
    ranks = {one.rank for one in loaders} or {0}
    host = {"usable_cpus": float(cpus), "cpus": 64, "shm_bytes": 16e9} | fields.pop("host", {})
    return Facts(
        loaders=list(loaders),
        processes={rank: process(rank, world_size, torch=torch, **fields) for rank in ranks},
        hosts={"box": HostFacts(name="box", **host)},
        world_size=world_size,
    )


def one(
    rank: int = 0,
    *,
    measured: dict[str, float] | None = None,
    probe: LoaderProbe | None = None,
    **fields: Any,
) -> LoaderFacts:
    base: dict[str, Any] = {"persistent_workers": True, "pin_memory": False, "start_method": "fork"}
    more: dict[str, Any] = dict(measured or {})
    return LoaderFacts(rank=rank, host="box", info=loader(**(base | fields)), probe=probe, **more)


def said(found: list[Advice]) -> dict[str, Advice]:
    return {advice.check: advice for advice in found}


def test_a_sensible_configuration_is_left_alone() -> None:
    assert audit(facts(one(num_workers=4))) == []


# ---- workers


def test_more_workers_than_usable_cpus() -> None:
    advice = said(audit(facts(one(num_workers=16), cpus=4)))["workers-cpus"]
    assert advice.severity == "warning"
    assert "16 workers" in advice.what
    assert "4 usable CPUs (of 64)" in advice.what
    assert "num_workers=3" in advice.change


def test_a_quota_is_named() -> None:
    found = said(audit(facts(one(num_workers=16), cpus=4, host={"quota_cpus": 4.0})))
    assert "quota" in found["workers-cpus"].why


def test_ranks_and_loaders_count_together() -> None:
    loaders = [
        each
        for rank in range(4)
        for each in (one(rank, num_workers=4), one(rank, loader=1, name="val", role="eval", num_workers=4))
    ]
    advice = said(audit(facts(*loaders, cpus=16, world_size=4)))["workers-cpus"]
    assert "32 workers" in advice.what
    assert "4 ranks × 4 + 4" in advice.what
    assert "num_workers=3" in advice.change
    assert advice.ranks == [0, 1, 2, 3]


def test_evaluation_workers_that_end_do_not_count() -> None:
    val = one(loader=1, name="val", role="eval", num_workers=8, persistent_workers=False)
    assert "workers-cpus" not in said(audit(facts(one(num_workers=8), val, cpus=8)))


def test_workers_that_wait_may_be_more_than_cpus() -> None:
    waiting = one(num_workers=16, measured={"fetch_cpu_ratio": 0.05, "fetch_s": 0.1})
    assert "workers-cpus" not in said(audit(facts(waiting, cpus=4)))


def test_no_workers_and_slow_batches() -> None:
    slow = one(num_workers=0, measured={"fetch_s": 0.4, "step_s": 0.1, "fetch_cpu_ratio": 1.0})
    assert "num_workers=4" in said(audit(facts(slow)))["workers-none"].change


@pytest.mark.parametrize("measured", [{"fetch_s": 0.001, "step_s": 0.1}, {"fetch_s": 0.002}, {}])
def test_no_workers_is_right_for_data_in_memory(measured: dict[str, float]) -> None:
    assert audit(facts(one(num_workers=0, measured=measured))) == []


def test_one_cpu_of_many() -> None:
    found = said(audit(facts(one(num_workers=1), cpus=1)))
    assert "1 of 64" in found["affinity"].what
    assert "affinity" not in said(audit(facts(one(num_workers=1), cpus=1, host={"quota_cpus": 1.0})))


# ---- threads


def test_threads_inside_workers() -> None:
    busy = one(num_workers=4, measured={"worker_threads": 9.0, "worker_cpu_ratio": 2.5})
    advice = said(audit(facts(busy, cpus=8, thread_limits={"OMP_NUM_THREADS": "8"})))["worker-threads"]
    assert "4 × 8 = 32" in advice.what
    assert "OMP_NUM_THREADS=8" in advice.what
    assert "OPENBLAS_NUM_THREADS=1" in advice.change


@pytest.mark.parametrize(
    "measured",
    [
        {"worker_threads": 2.0, "worker_cpu_ratio": 1.0},
        {"worker_threads": 9.0, "worker_cpu_ratio": 0.3},  # a thread pool that waits for storage
        {},
    ],
)
def test_threads_that_do_not_matter(measured: dict[str, float]) -> None:
    assert "worker-threads" not in said(audit(facts(one(num_workers=4, measured=measured), cpus=8)))


# ---- starting


def test_workers_started_anew_each_epoch() -> None:
    measured = {"starts": 3, "start_s": 2.0, "epoch_s": 10.0}
    advice = said(audit(facts(one(persistent_workers=False, measured=measured))))["persistent-workers"]
    assert advice.severity == "warning"
    assert "2.0 s" in advice.what
    assert "20 %" in advice.what


def test_a_loader_built_for_every_epoch_is_one_loader() -> None:
    builder = epochs(of=loader(persistent_workers=False, start_method="fork"), iter_s=0.4, first_s=1.2)
    found = audit(
        facts_of(run(anew(builder), cpus=4))
    )  # five times two workers would be too many for four CPUs
    (advice,) = found
    assert (advice.check, advice.loader, advice.severity) == ("persistent-workers", "train_loader", "warning")
    assert "a new DataLoader for each epoch" in advice.what
    assert "1.6 s" in advice.what
    assert "Make the DataLoader once" in advice.change


def test_restarts_that_cost_nothing_are_not_mentioned() -> None:
    measured = {"starts": 3, "start_s": 0.1, "epoch_s": 600.0}
    assert audit(facts(one(persistent_workers=False, measured=measured))) == []


def test_restarts_not_yet_measured_are_a_remark_and_with_spawn_a_warning() -> None:
    fork = said(audit(facts(one(persistent_workers=False))))["persistent-workers"]
    spawn = said(audit(facts(one(persistent_workers=False, start_method="spawn"))))["persistent-workers"]
    assert (fork.severity, spawn.severity) == ("info", "warning")


def test_a_stream_is_warned_of_its_set_epoch() -> None:
    found = said(audit(facts(one(persistent_workers=False, iterable_dataset=True))))
    assert "set_epoch" in found["persistent-workers"].change


# ---- cushion


def test_jitter_above_the_cushion() -> None:
    measured = {"fetch_s": 0.05, "fetch_tail_s": 1.5, "step_s": 0.1, "batch_bytes": 1e6}
    advice = said(audit(facts(one(num_workers=2, measured=measured))))["prefetch"]
    assert "prefetch_factor=9" in advice.change
    assert "14 MB" in advice.change


def test_prefetch_is_no_cure_for_slow_workers() -> None:
    measured = {"fetch_s": 0.5, "fetch_tail_s": 3.0, "step_s": 0.1}
    assert "prefetch" not in said(audit(facts(one(num_workers=2, measured=measured))))


def test_shared_memory_before_it_is_full() -> None:
    loaders = [one(rank, num_workers=8, measured={"batch_bytes": 50e6}) for rank in range(2)]
    small = facts(*loaders, world_size=2, cpus=32, host={"shm_bytes": 1e9})
    advice = said(audit(small))["shared-memory"]
    assert advice.severity == "critical"
    assert "1.7 GB" in advice.what
    assert "8 × 2 batches of 50 MB" in advice.what
    assert "lower num_workers (now 8)" in advice.change
    assert said(audit(facts(*loaders, world_size=2, cpus=32))) == {}
    far = one(num_workers=2, prefetch_factor=8, measured={"batch_bytes": 100e6})
    advice = said(audit(facts(far, host={"shm_bytes": 1e9})))["shared-memory"]
    assert "prefetch_factor=3 (now 8)" in advice.change
    lower = one(num_workers=2, prefetch_factor=3, measured={"batch_bytes": 100e6})
    assert "shared-memory" not in said(audit(facts(lower, host={"shm_bytes": 1e9})))


def test_a_small_loader_reads_no_further_ahead_than_its_epoch() -> None:
    small = one(num_workers=8, prefetch_factor=8, batches=2, measured={"batch_bytes": 100e6})
    assert "shared-memory" not in said(audit(facts(small, host={"shm_bytes": 1e9})))


def test_a_containers_default_shared_memory() -> None:
    found = said(audit(facts(one(), host={"shm_bytes": 64.0 * 2**20})))
    assert found["shared-memory"].severity == "info"


# ---- options


def test_pinning_with_and_without_a_gpu() -> None:
    assert "pin_memory=True" in said(audit(facts(one(), cuda=True)))["pin-memory"].change
    assert "ignores" in said(audit(facts(one(pin_memory=True))))["pin-memory"].why
    assert audit(facts(one(pin_memory=True), cuda=True)) == []


def test_a_timeout_that_turns_a_hiccup_into_a_crash() -> None:
    short = one(timeout_s=10.0, measured={"first_wait_s": 8.0})
    assert "timeout=80" in said(audit(facts(short)))["timeout"].change
    assert audit(facts(one(timeout_s=120.0, measured={"first_wait_s": 8.0}))) == []


def test_a_timeout_before_anything_ran() -> None:
    """Of a script the time of a batch is known before any has been awaited."""
    read = LoaderProbe(loader=0, samples=8, batch=8)
    short = one(timeout_s=2.0, measured={"fetch_s": 3.2}, probe=read)
    assert said(audit(facts(short)))["timeout"].severity == "critical"
    near = one(timeout_s=5.0, measured={"fetch_s": 3.2}, probe=read)
    assert said(audit(facts(near)))["timeout"].severity == "warning"
    assert "timeout" not in said(audit(facts(one(timeout_s=60.0, measured={"fetch_s": 3.2}, probe=read))))


def test_a_timeout_without_workers() -> None:
    assert said(audit(facts(one(num_workers=0, timeout_s=5.0))))["timeout"].severity == "critical"


def test_a_snapshot_with_every_batch() -> None:
    every = one(class_name="StatefulDataLoader", snapshot_every_n_steps=1, iterable_dataset=True)
    assert said(audit(facts(every)))["snapshots"].severity == "warning"
    assert audit(facts(one(class_name="StatefulDataLoader", snapshot_every_n_steps=500))) == []


# ---- ranks


def test_set_epoch_never_called() -> None:
    found = said(audit(facts(one(same_epoch_passes=2, sampler_class="DistributedSampler"))))
    assert "set_epoch(epoch)" in found["set-epoch"].change
    assert audit(facts(one(same_epoch_passes=1))) == []


def test_uneven_batches() -> None:
    advice = said(audit(facts(one(0, batches=100), one(1, batches=99), world_size=2)))["uneven-batches"]
    assert advice.severity == "critical"
    assert "99 batches on rank 1 and 100 on rank 0" in advice.what
    assert audit(facts(one(0, batches=100), one(1, batches=100), world_size=2)) == []


@pytest.mark.parametrize(
    ("torch", "switch"), [("2.13.0", "forward_sync_buffers=False"), ("2.6.0", "broadcast_buffers=False")]
)
def test_buffers_of_a_ddp_model_by_version(torch: str, switch: str) -> None:
    val = [one(rank, loader=1, name="val", role="eval", batches=7 + rank) for rank in range(2)]
    train = [one(rank) for rank in range(2)]
    found = said(audit(facts(*train, *val, world_size=2, torch=torch, synced_buffers=3)))
    assert switch in found["ddp-buffers"].change
    assert switch in found["uneven-batches"].change
    (other,) = {"forward_sync_buffers=False", "broadcast_buffers=False"} - {switch}
    assert not any(other in advice.change for advice in found.values())


@pytest.mark.parametrize(
    ("workers", "splits", "told"),
    [(4, False, True), (4, None, False), (4, True, False), (1, False, False), (0, False, False)],
)
def test_a_stream_that_is_not_split(workers: int, splits: bool | None, told: bool) -> None:
    found = said(
        audit(
            facts(
                one(num_workers=workers, iterable_dataset=True, splits_by_worker=splits, dataset_class="Rows")
            )
        )
    )
    assert ("stream-split" in found) is told
    if told:
        assert "every row is delivered 4 times" in found["stream-split"].why
        assert "Rows.__iter__" in found["stream-split"].change


@pytest.mark.parametrize("splits", [None, False, True])
def test_workers_for_a_stream_come_with_a_split(splits: bool | None) -> None:
    stream = one(
        num_workers=0,
        iterable_dataset=True,
        splits_by_worker=splits,
        measured={"fetch_s": 0.2, "step_s": 0.1},
    )
    change = said(audit(facts(stream)))["workers-none"].change
    assert ("get_worker_info()" in change) is (splits is not True)


@pytest.mark.parametrize(
    ("shards", "severity"), [(2, "warning"), (6, "info"), (4, None), (8, None), (101, None), (None, None)]
)
def test_shards(shards: int | None, severity: str | None) -> None:
    found = said(audit(facts(one(num_workers=4, iterable_dataset=True, shards=shards))))
    assert (found["shards"].severity if severity else None) == severity
    assert severity is not None or "shards" not in found


@pytest.mark.parametrize(
    ("backend", "world_size", "dump", "said_so"),
    [
        ("nccl", 2, None, True),
        ("cpu:gloo,cuda:nccl", 2, None, True),
        ("nccl", 2, "/tmp/rank_0", False),
        ("nccl", 1, None, False),
        ("gloo", 2, None, False),
        (None, 2, None, False),
    ],
)
def test_flight_recorder(backend: str | None, world_size: int, dump: str | None, said_so: bool) -> None:
    found = said(audit(facts(one(), world_size=world_size, backend=backend, flight_dump=dump)))
    assert ("flight-recorder" in found) == said_so


# ---- what doctor finds


def report(probe: LoaderProbe | None = None, **fields: Any) -> Facts:
    info = loader(**({"persistent_workers": True, "start_method": "fork"} | fields.pop("info", {})))
    made = ScriptReport(process=process(loaders=[info]), probes=[probe] if probe else [], **fields)
    return facts_of_script([made], HostFacts(name="box", cpus=16, usable_cpus=16.0, shm_bytes=16e9))


def test_a_refused_call_is_explained() -> None:
    text = "ValueError: persistent_workers option needs num_workers > 0"
    advice = said(audit(report(refusal=text)))["refused"]
    assert advice.severity == "critical"
    assert "num_workers of at least 1" in advice.change


def test_what_cannot_be_pickled() -> None:
    probe = LoaderProbe(loader=0, pickle_error="Can't pickle local object")
    assert said(audit(report(probe, info={"start_method": "spawn"})))["pickle"].severity == "critical"
    assert audit(report(probe)) == []  # forked workers inherit it


def test_a_large_pickle() -> None:
    probe = LoaderProbe(loader=0, pickle_bytes=200_000_000, pickle_s=1.5)
    advice = said(audit(report(probe, info={"start_method": "forkserver"})))["pickle"]
    assert "200 MB" in advice.what
    assert "3.0 s" in advice.why


def test_no_main_guard() -> None:
    spawned = report(main_guard=False, info={"start_method": "spawn"})
    assert said(audit(spawned))["main-guard"].severity == "critical"
    assert audit(report(main_guard=False)) == []


def test_a_sample_that_cannot_be_read() -> None:
    error = "RuntimeError: Cannot re-initialize CUDA in forked subprocess"
    advice = said(audit(report(LoaderProbe(loader=0, error=error))))["sample"]
    assert "CPU tensors" in advice.change


def test_batches_that_are_dear_to_hand_over() -> None:
    probe = LoaderProbe(loader=0, samples=8, batch=64, wall_s=0.1, cpu_s=0.1, bytes=1000, tensors=600)
    assert "600 tensors" in said(audit(report(probe)))["delivery"].what
    few = LoaderProbe(loader=0, samples=8, batch=64, wall_s=0.1, cpu_s=0.1, bytes=1000, tensors=2)
    assert audit(report(few)) == []


def test_threads_seen_while_reading_samples() -> None:
    probe = LoaderProbe(loader=0, samples=8, batch=8, wall_s=1.0, cpu_s=3.0, threads=16)
    assert "2 × 16 = 32" in said(audit(report(probe)))["worker-threads"].what


# ---- from a window


def test_facts_of_a_window() -> None:
    rank = RankBuilder(loaders=[loader(persistent_workers=False, start_method="fork")])
    for number in range(30):
        rank.fetch(0, 0.2, cpu=0.5).step(0.1, 0.1)
        rank.rows["fetches"][-1]["ordinal"] = number
    rank.process(worker=0, pid=7, cpu=1.5, threads=6.0)
    found = facts_of(run(rank))
    (mine,) = found.loaders
    assert mine.fetch_s == pytest.approx(0.2)
    assert mine.fetch_cpu_ratio == pytest.approx(0.5)
    assert mine.step_s == pytest.approx(0.1)
    assert mine.batch_bytes == 1_000_000
    assert mine.worker_threads == 6
    assert math.isnan(mine.first_wait_s)


def test_what_a_worker_opens_with_its_first_batch_is_no_tail() -> None:
    rank = RankBuilder()
    for number in range(60):
        rank.fetch(number % 2, 3.0 if number < 2 else 0.2, cpu=0.5).step(0.1, 0.1)
        rank.rows["fetches"][-1] |= {"ordinal": number // 2, "slow_index": number}
    (mine,) = facts_of(run(rank)).loaders
    assert mine.fetch_tail_s == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("state", "rank", "scenario", "left"),
    [
        ("firing", 0, "S01", ["timeout"]),
        ("acknowledged", 0, "S01", ["timeout"]),
        ("silenced", 0, "S01", ["timeout"]),
        ("firing", None, "S01", ["timeout"]),  # of all ranks
        ("firing", 1, "S01", ["timeout", "workers-none"]),
        ("resolved", 0, "S01", ["timeout", "workers-none"]),
        ("firing", 0, "S07", ["timeout"]),  # "More workers on this machine will not help."
        ("firing", 0, "S49", ["timeout"]),
        ("firing", 0, "S05", ["timeout", "workers-none"]),  # what to do about the CPUs, whatever the workers
    ],
)
def test_one_page_gives_one_number_of_workers(
    state: AlertState, rank: int | None, scenario: str, left: list[str]
) -> None:
    found = [
        Advice(check=check, severity="warning", what="", why="", change="num_workers=2", ranks=[0])
        for check in ("timeout", "workers-none")
    ]
    told = Finding(
        id="run-1:1", key="input-bound:rank0", code="input-bound", scenario=scenario, severity="critical",
        state=state, confidence=1.0,
        rank=rank, host="box", worker=None, pid=None, sample_indices=[], began_at=0.0, ended_at=None,
        title="", cause="", advice="", evidence=[], lost_s=None, gain_ceiling_ratio=None, stacks=[],
    )  # fmt: skip
    assert [one.check for one in not_told(found, [told])] == left


def test_who_names_a_number_of_workers_is_known_to() -> None:
    """By the source: a rule for a wait that advises ``num_workers=`` or an arrow explains one of these."""
    for rule in RULES:
        if re.search(r"num_workers(=\{| \{)", inspect.getsource(rule.find)):
            assert rule.aliases in SAYS_HOW_MANY


@pytest.mark.parametrize(
    ("fetch_s", "read", "said_so"),
    [(0.006, 300.0, False), (0.06, 300.0, True), (0.006, 1e5, True), (0.006, math.nan, True)],
    ids=["in memory", "decoded", "read", "not known"],
)
def test_no_workers_for_samples_that_lie_in_memory(fetch_s: float, read: float, said_so: bool) -> None:
    """512 samples of 12 µs each, against 120 µs each, and against those that are read from files."""
    measured = {
        "fetch_s": fetch_s,
        "step_s": 0.01,
        "fetch_cpu_ratio": 1.0,
        "batch_bytes": 1e5,
        "read_bytes": read,
    }
    found = said(audit(facts(one(num_workers=0, batch_size=512, measured=measured))))
    assert ("workers-none" in found) == said_so
