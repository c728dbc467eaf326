"""What the fake server of the page answers of its runs, in the shapes of docs/http-api.md."""

from __future__ import annotations

import math
import random
from typing import Any, cast

import msgspec
import numpy as np

from loaderwatch.core.answers import RankRow
from loaderwatch.server.live.groups import groups_of, in_group, page_of
from loaderwatch.server.queries.heatmap import Rows, shaped
from loaderwatch.server.store.protocol import Grid
from tests.fakes.page_data import MAIN_STACK, FakeRun, Json


def _setting(workers: int, per_s: float, factor: int = 2, in_order: bool = True) -> Json:
    return {
        "num_workers": workers, "prefetch_factor": factor, "in_order": in_order, "steps_per_s": per_s,
        "least_per_s": per_s * 0.96, "most_per_s": per_s * 1.05, "gain_ratio": max(0.0, 1 - 13.4 / per_s),
        "memory_bytes": workers * factor * 19_300_000,
    }  # fmt: skip


WHAT_IF: list[Json] = [
    {"rank": 0, "loader": 0, "name": "train_loader", "measured_per_s": 13.4, "today": _setting(4, 13.5),
     "knee": 7, "workers": [_setting(number, min(3.4 * number, 22.6)) for number in range(1, 13)],
     "others": [_setting(4, 13.5, 4), _setting(4, 13.6, 8), _setting(4, 13.9, in_order=False)],
     "fetches": 412, "fetch_s": 0.294, "step_s": 0.044, "cpus": 7.1, "fetch_cpus": 0.84,
     "free_bytes": 400_000_000, "free_in": "/dev/shm",
     "options": [
         {"change": "persistent_workers=True", "least_ratio": 0.06, "most_ratio": 0.08, "per_epoch_s": 4.1,
          "rests_on": "Workers started anew in 3 epochs, 4.1 s until the first batch, of 51 s an epoch."
          " Workers that are kept still read that batch."},
         {"change": "batch_size=64", "least_ratio": 0.0, "most_ratio": 0.02, "per_epoch_s": None,
          "rests_on": "Twice the samples take a worker twice as long, and the batches read ahead twice the"
          " memory. The step takes twice as long at worst, and as long as now at best."
          " The model learns from other batches then."},
     ]},
]  # fmt: skip

ADVICE: list[Json] = [
    {"check": "workers-cpus", "severity": "warning", "loader": "train_loader", "ranks": [0, 1],
     "what": "16 workers (2 ranks × 8) share 8 usable CPUs (of 64).",
     "why": "Beyond one worker per CPU each of them only gets slower.",
     "change": "num_workers=3 for train_loader (now 8) on each of 2 ranks."},
    {"check": "pin-memory", "severity": "info", "loader": "train_loader", "ranks": [0, 1],
     "what": "pin_memory=False, and the training process uses CUDA.",
     "why": "Copies from pageable memory block.", "change": "pin_memory=True in the loader."},
]  # fmt: skip
OK_VERDICT = {
    "severity": "ok",
    "title": "Nothing is wrong: data is ready when the loop asks for it",
    "advice": "Data wait is 2 % of step time.",
    "finding_id": None,
}


def summary(run: FakeRun, wall: float) -> Json:
    """The summary of one run at ``wall``."""
    now = run.now(wall)
    live = run.state in ("live", "hung")
    ranks: list[Json] = []
    for rank in range(run.ranks):
        parts = run.parts(rank, now)
        share = run.value("data_wait_ratio", rank, now)
        stuck = run.state == "hung"
        ranks.append(
            {"rank": rank, "host": run.hosts[rank * len(run.hosts) // run.ranks], "pid": 4711 + rank,
             "state": {"live": "live", "hung": "hung" if rank == 1 else "live"}.get(run.state, run.state),
             "exit": run.exit, "watched": rank not in run.unwatched, "step": int((now - run.t0) * 9.7),
             "eval_batches": 0, "epoch": int((now - run.t0) // run.epoch_s),
             "batch": int((now - run.t0) % run.epoch_s * 9.7), "phase": "wait" if stuck else "forward",
             "phase_age_s": wall - now if stuck else 0.02,
             "steps_per_s": 0.0 if stuck else run.value("steps_per_s", rank, now),
             "data_wait_ratio": 1.0 if stuck else share, "clock": "device" if run.device else "loop",
             "step_s": run.value("step_s", rank, now), "wait_s": parts["wait_s"],
             "ready_batches": 0 if stuck else run.value("ready_batches", rank, now),
             "gpu": None if run.gpu == "none" else rank % 8,
             "gpu_utilization_ratio": run.value("gpu_utilization_ratio", rank, now), "seen_at": now}
        )  # fmt: skip
    shares = [r["data_wait_ratio"] for r in ranks]
    mean = sum(shares) / len(shares)
    firing = [f for f in run.findings if f["state"] in ("firing", "acknowledged") and f["severity"] != "info"]
    verdict = OK_VERDICT
    if firing:
        top = firing[0]
        verdict = {k: top[k] for k in ("severity", "title", "advice")} | {"finding_id": top["id"]}
    elif run.state == "crashed":
        verdict = {"severity": "critical", "title": "Rank 0 was killed (SIGKILL) after 21 min",
                   "finding_id": None,
                   "advice": "Look at the kernel log for the out-of-memory killer."}  # fmt: skip
    gpu = run.value("gpu_utilization_ratio", 0, now)
    return {
        "run_id": run.run_id, "name": run.name, "state": run.state, "attempt": len(run.earlier) + 1,
        "attempts": len(run.earlier) + 1,
        "earlier": run.earlier, "started_at": run.t0, "last_seen_at": wall if live else now,
        "now": wall if live else now, "world_size": run.ranks, "rank_count": run.ranks,
        "host_count": len(run.hosts),
        "unwatched_count": sum(not r["watched"] and r["state"] == "live" for r in ranks),
        "groups": msgspec.to_builtins(groups_of([RankRow(**row) for row in ranks])),
        "hosts": [{"name": h, "cpus": 16, "usable_cpus": 8.0,
                   "gpu_status": "No NVIDIA driver on this machine (libnvidia-ml.so.1 not found)"
                   if run.gpu == "none" else ""}
                  for h in run.hosts],
        "steps": int((now - run.t0) * 9.7), "eval_batches": 0, "steps_per_s": ranks[0]["steps_per_s"],
        "data_wait_ratio": mean, "clock": "device" if run.device else "loop",
        "gpu_utilization_ratio": gpu, "gpu_starved_ratio": mean if run.device else None,
        "compute_duty_ratio": 1 - mean,
        "goodput_ratio": 1 - mean * 0.9, "lost_s": sum(f["lost_s"] or 0 for f in run.findings),
        "lost_clock": "device" if run.device else "loop", "lost_records": run.lost_records,
        "simulated_gpu": run.gpu == "simulated", "epochs": int((now - run.t0) // run.epoch_s) + 1,
        "verdict": verdict,
        "loaders": [{"rank": 0, "loader": 0, "name": "train_loader", "role": "train",
                     "class_name": "DataLoader",
                     "dataset_class": "ImageFolder", "dataset_length": 60000, "batches": 938,
                     "batch_size": 64, "num_workers": run.workers, "prefetch_factor": 2,
                     "persistent_workers": False, "pin_memory": True}],
        "ranks": ranks,
    }  # fmt: skip


def row(run: FakeRun, wall: float) -> Json:
    """The run as the list of runs shows it."""
    s = summary(run, wall)
    keys = ("run_id", "name", "state", "started_at", "last_seen_at", "world_size", "steps", "attempts")
    return {k: s[k] for k in keys} | {
        "hosts": run.hosts, "host_count": len(run.hosts), "verdict": s["verdict"]["title"],
        "severity": s["verdict"]["severity"],
    }  # fmt: skip


def buckets(run: FakeRun, q: dict[str, str], wall: float) -> tuple[float, list[float]]:
    """Width and start times of the buckets that a query asks for."""
    end = min(float(q.get("end", wall)), run.now(wall))
    start = max(float(q.get("start", run.t0)), run.t0)
    width = next(
        w for w in (1, 2, 5, 10, 30, 60, 300, 3600) if (end - start) / w <= int(q.get("points", 300))
    )
    first = math.floor(start / width) * width
    return float(width), [first + i * width for i in range(max(0, math.ceil((end - first) / width)))]


def series(run: FakeRun, q: dict[str, str], wall: float) -> Json:
    """One metric over time."""
    width, ts = buckets(run, q, wall)
    rank = q.get("rank")
    out: dict[str, list[float | None]] = {"min": [], "mean": [], "max": []}
    for t in ts:
        seen = [run.value(q["metric"], int(rank or 0), t + width * k / 3) for k in range(3)]
        known = [v for v in seen if v is not None]
        out["min"].append(min(known, default=None))
        out["max"].append(max(known, default=None))
        out["mean"].append(sum(known) / len(known) if known else None)
    return {
        "metric": q["metric"],
        "rank": None if rank is None else int(rank),
        "bucket_s": width,
        "t": ts,
        **out,
    }


def heatmap(run: FakeRun, q: dict[str, str], wall: float) -> Json:
    """One metric, by rank or host and time."""
    width, ts = buckets(run, q, wall)
    values = np.array(
        [[run.value(q["metric"], rank, t) for t in ts] for rank in range(run.ranks)], dtype=float
    )
    grid = Grid(
        round(width * 1e9),
        np.array([round(t * 1e9) for t in ts], dtype=np.int64),
        np.arange(run.ranks),
        values.reshape(run.ranks, len(ts)),
    )
    hosts = {row["rank"]: row["host"] for row in summary(run, wall)["ranks"]}
    by, order = cast(Any, q.get("by", "rank")), cast(Any, q.get("order", "rank"))
    rows = Rows(by=by, order=order, find=q.get("find", ""), limit=int(q["limit"]) if "limit" in q else None)
    found: Json = msgspec.to_builtins(shaped(grid, q["metric"], hosts, rows))
    return found


def ranks(run: FakeRun, q: dict[str, str], wall: float) -> Json:
    """A page of the ranks."""
    rows = [RankRow(**row) for row in summary(run, wall)["ranks"]]
    if "group" in q:
        rows = in_group(rows, q["group"])
    if "rank" in q:
        rows = [row for row in rows if row.rank == int(q["rank"])]
    page = page_of(
        rows,
        sort=q.get("sort", "rank"),
        down=q.get("down") == "true",
        offset=int(q.get("offset", 0)),
        limit=int(q.get("limit", 64)),
        find=q.get("find", ""),
    )
    found: Json = msgspec.to_builtins(page)
    return found


def epochs(run: FakeRun, wall: float) -> list[Json]:
    """The epochs so far."""
    out: list[Json] = []
    for n in range(int((run.now(wall) - run.t0) // run.epoch_s) + 1):
        began = run.t0 + n * run.epoch_s
        out.append(
            {"rank": 0, "loader": 0, "epoch": n, "began_at": began, "iter_s": 0.4, "sampler_s": 0.01,
             "first_wait_s": 0.98, "iter_kind": "started", "workers": run.workers, "drained": 0, "gap_s": 0.2,
             "ended_at": began + run.epoch_s - 1, "teardown_s": 0.1, "batches": 938, "ended_by": "exhausted"}
        )  # fmt: skip
    return out


def boundaries(run: FakeRun, wall: float) -> list[Json]:
    """The epochs so far by their parts."""
    newest = [
        {"epoch": one["epoch"], "began_at": one["began_at"], "start_s": 0.4 if one["epoch"] else 0.9,
         "sampler_s": 0.01,
         "first_batch_s": 0.98, "steady_s": run.epoch_s - 2.4, "teardown_s": 0.1, "gap_s": 0.2, "cost_s": 1.5,
         "ended_at": one["ended_at"],
         "ended_by": "exhausted", "batches": 938, "iter_kind": "started", "workers": run.workers,
         "drained": 0}
        for one in epochs(run, wall)
    ]  # fmt: skip
    newest[-1] |= dict.fromkeys(("steady_s", "teardown_s", "gap_s", "ended_at", "ended_by", "batches"))
    return [
        {"rank": 0, "loader": 0, "name": "train_loader", "role": "train", "epochs": len(newest),
         "cost_s": 1.5 * len(newest), "usual_wait_s": 0.001, "newest": newest}
    ]  # fmt: skip


def marks(run: FakeRun, wall: float) -> list[Json]:
    """A checkpoint in each epoch, an evaluation after it, and other settings once."""
    mark: Json = {"ranks": [0], "finding_id": None}
    found = []
    for one in epochs(run, wall)[:-1]:
        at = one["ended_at"]
        found.append(
            mark | {"kind": "checkpoint", "began_at": at - 3, "ended_at": at - 2, "text": "checkpoint"}
        )
        found.append(mark | {"kind": "evaluation", "began_at": at - 2, "ended_at": at, "text": "val_loader"})
    found.append(
        mark
        | {
            "kind": "config",
            "began_at": run.t0 + 250,
            "ended_at": None,
            "text": "train_loader: num_workers 4 → 2",
        }
    )
    return sorted(found, key=lambda each: float(each["began_at"]))


def fetches(run: FakeRun, q: dict[str, str], wall: float) -> Json:
    """Back-to-back fetches of each worker within the range."""
    end = min(float(q.get("end", wall)), run.now(wall))
    start = max(float(q.get("start", end - 300)), run.t0)
    rows: list[tuple[float, int, float, int, float]] = []
    for worker in range(run.workers):
        t, n = math.floor(start), 0
        clock = float(t)
        while clock < end:
            rng = random.Random(f"{worker}/{int(clock * 50)}")
            slow = rng.random() > 0.985
            took = 0.5 + 0.3 * rng.random() + (2.2 if slow else 0)
            rows.append(
                (clock, worker, min(took, end - clock), rng.randrange(60000), took * 0.8 if slow else 0.03)
            )
            clock += took + 0.15 * rng.random()
            n += 1
    rows = sorted(rows)[-int(q.get("limit", 2000)) :]
    return {
        "loader": [0 for _ in rows], "worker": [r[1] for r in rows], "began_at": [r[0] for r in rows],
        "fetch_s": [r[2] for r in rows], "collate_s": [r[2] * 0.12 for r in rows],
        "cpu_s": [r[2] * 0.6 for r in rows],
        "samples": [64 for _ in rows], "slow_index": [r[3] for r in rows], "slow_s": [r[4] for r in rows],
        "bytes": [9633792 for _ in rows],
    }  # fmt: skip


def coupling(run: FakeRun, wall: float) -> Json:
    """Who waits for whom: for the rank that hangs, or for the one whose loader is slow."""
    nobody: Json = {
        "state": "even", "reason": "", "source": "measured", "iterations": 140, "waiting": [],
        "waited_for": [], "wait_s": None,
        "cause": None, "where": None, "ranks": [], "places": [], "given_up_in_s": None, "timeout_s": None,
    }  # fmt: skip
    everyone = set(range(run.ranks))
    if run.state == "hung":
        age = wall - run.now(wall)
        place: Json = {"state": "stands", "collective": None, "at": None, "for_s": age}
        stack: Json = {"worker": -1, "taken_at": run.now(wall) + 12, "why": "open span", "text": MAIN_STACK}
        return nobody | {
            "state": "standing", "waiting": sorted(everyone - {1}), "waited_for": [1], "wait_s": age,
            "given_up_in_s": max(0.0, 600 - age), "timeout_s": 600.0,
            "places": [
                place | {"ranks": [1], "stands": "next(loader)", "stack": stack | {"rank": 1, "pid": 4712}},
                place | {"ranks": sorted(everyone - {1}), "collective": "backward", "stands": "backward",
                         "at": "train.py:61 in train_epoch", "stack": stack | {"rank": 0, "pid": 4711}},
            ],
        }  # fmt: skip
    late = run.slow_rank
    waits = {rank: run.parts(rank, run.now(wall))["wait_s"] if rank == late else 0.002 for rank in everyone}
    longest = max(waits.values())
    shares = [
        {"rank": rank, "iteration_s": longest + 0.052, "data_s": waits[rank], "own_s": 0.052,
         "others_s": longest - waits[rank], "caused_s": longest if rank == late else 0.0}
        for rank in sorted(everyone)
    ]  # fmt: skip
    found = nobody | {"ranks": shares}
    if late is None:
        return found
    return found | {
        "state": "waiting", "waiting": sorted(everyone - {late}), "waited_for": [late],
        "wait_s": longest - 0.002, "cause": "data", "where": "backward",
    }  # fmt: skip


def workers(run: FakeRun, rank: int, wall: float) -> list[Json]:
    """What each process of a rank is doing now."""
    stuck = run.state == "hung" and rank == 1
    age = wall - run.now(wall)
    base: Json = {
        "rank": rank,
        "loader": 0,
        "sample_index": None,
        "sample_age_s": None,
        "alive": True,
        "fds": 41,
    }
    main = base | {"worker": -1, "pid": 4711 + rank, "phase": "wait" if stuck else "forward",
                   "phase_age_s": age if stuck else 0.01,
                   "os_state": "S" if stuck else "R", "wchan": "ep_poll" if stuck else None,
                   "cpu_ratio": 0.02 if stuck else 0.97, "rss_bytes": 2.41e9, "threads": 28,
                   "batches": int((run.now(wall) - run.t0) * 9.7)}  # fmt: skip
    out = [main]
    for worker in range(run.workers):
        hit = stuck and worker == 2
        out.append(
            base | {"worker": worker, "pid": 31875 + worker, "phase": "fetch" if hit or not stuck else "idle",
                    "phase_age_s": age + 1 if hit else 0.2 + 0.1 * worker,
                    "sample_index": 18432 if hit else 512 + worker * 31,
                    "sample_age_s": age if hit else 0.03, "os_state": "S" if stuck else "R",
                    "wchan": "sk_wait_data" if hit else None,
                    "cpu_ratio": 0.0 if stuck else 0.55 + 0.1 * worker, "rss_bytes": 3.2e8 + worker * 1e7,
                    "threads": 3, "batches": 310 + worker}
        )  # fmt: skip
    return out


OTHER = {"pid": 2211, "rank": None, "memory_bytes": 6.1e9, "sm_ratio": 0.11, "name": "ollama", "user": "bob"}


def gpus(run: FakeRun, q: dict[str, str], wall: float) -> list[Json]:
    """Each rank's GPU, of all hosts or one; on that of rank 1 somebody else computes as well."""
    per_host = -(-run.ranks // len(run.hosts))
    rows: list[Json] = []
    for rank in range(0 if run.gpu == "none" else run.ranks):
        share = run.value("gpu_utilization_ratio", rank, run.now(wall)) or 0.0
        rows.append(
            {"host": run.hosts[rank // per_host], "gpu": rank % 8, "uuid": f"GPU-{rank}", "ranks": [rank],
             "looked_at": run.now(wall),
             "name": "loaderwatch simulated GPU" if run.gpu == "simulated" else "NVIDIA H100 80GB HBM3",
             "simulated": run.gpu == "simulated", "utilization_ratio": share,
             "memory_used_bytes": 4.2e10 + rank * 1e8,
             "memory_total_bytes": 8.5e10, "power_w": 120 + 480 * share, "power_limit_w": 700.0,
             "sm_clock_hz": 1.98e9,
             "temperature_c": 61.0, "slowed_by": ["software thermal slowdown"] if rank == 3 else [],
             "processes": [{"pid": 4711 + rank, "rank": rank, "memory_bytes": 3.6e10, "sm_ratio": share,
                            "name": "python", "user": "ada"},
                           *([OTHER] if rank == 1 else [])]}
        )  # fmt: skip
    found = [each for each in rows if q.get("host") in (None, each["host"])]
    return found[: int(q.get("limit", len(found)))]
