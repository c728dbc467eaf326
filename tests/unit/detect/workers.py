"""Workers that cannot keep up, and what the machine said of them meanwhile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.window import RunWindow
from tests.unit.detect.build import RankBuilder, S


def only(window: RunWindow) -> Finding:
    """The one finding of a window that alerts."""
    (finding,) = [finding for finding in detect(RunEvidence(window)) if finding.severity != "info"]
    return finding


def alerts(window: RunWindow) -> list[str]:
    """The scenarios that alert."""
    return [finding.scenario for finding in detect(RunEvidence(window)) if finding.severity != "info"]


def starve(
    rank: RankBuilder,
    *,
    fetch: float,
    step: float,
    workers: int = 2,
    cpu: float = 0.9,
    seconds: float = 25.0,
    seed: int = 0,
    **fields: float,
) -> RankBuilder:
    """All workers deliver together, then all read. ``cpu`` is the reading thread's share of a fetch."""
    random = np.random.default_rng(seed)
    until = rank.now_ns + int(seconds * S)
    first = True
    while rank.now_ns < until:
        took = fetch * random.uniform(0.9, 1.1)
        for turn in range(workers):
            if turn == 0:
                wait = took if first else max(0.0005, took - step * workers)
                began_ns = rank.now_ns + int((wait - took) * S)
                rank.step(wait, step, awaited_worker=0)
                for worker in range(workers):
                    rank.fetch(worker, took, cpu=cpu)
                    rank.rows["fetches"][-1].update({"request_ns": began_ns, **fields})
                first = False
            else:
                rank.step(0.0004, step, ready=workers - turn)
    return rank


def watch(
    rank: RankBuilder, workers: int, *, cpu: float, looks: int = 11, main_cpu: float = 0.1, **fields: float
) -> RankBuilder:
    """Sample each worker and the training process once a second up to now. Counters are given per second."""
    grows = {
        "read_chars",
        "read_bytes",
        "involuntary_switches",
        "voluntary_switches",
        "major_faults",
        "written_chars",
    }
    main = {name: value for name, value in fields.items() if name.startswith("main_")}
    own = {name: value for name, value in fields.items() if name not in main}
    for look in range(looks):
        at_ns = rank.now_ns - (looks - 1 - look) * S
        for worker in range(workers):
            values = {name: value * look if name in grows else value for name, value in own.items()}
            rank.process(worker=worker, pid=200 + 10 * rank.rank + worker, cpu=cpu, t_ns=at_ns, **values)
        rank.process(
            worker=-1,
            pid=100 + rank.rank,
            cpu=main_cpu,
            t_ns=at_ns,
            **{name.removeprefix("main_"): value for name, value in main.items()},
        )
    return rank


def on_host(window: RunWindow, **columns: float) -> RunWindow:
    """The same window with these columns of its hosts."""
    hosts = {
        name: replace(
            host,
            hosts={**host.hosts, **{c: np.full(host.hosts["t_ns"].size, v) for c, v in columns.items()}},
        )
        for name, host in window.hosts.items()
    }
    return replace(window, hosts=hosts)


def starved(
    rank: RankBuilder,
    *,
    workers: int,
    fetch: float,
    step: float,
    cpu: float,
    batches: int = 200,
    seed: int = 0,
) -> RankBuilder:
    """Workers in phase: all deliver together, then all read again."""
    random = np.random.default_rng(seed)
    for number in range(batches):
        if number % workers == 0:
            took = fetch * random.uniform(0.9, 1.1)
            for worker in range(workers):
                rank.fetch(worker, took, cpu=cpu)
            rank.step(max(0.0005, took - step * workers), step)
        else:
            rank.step(0.0004, step, ready=workers - number % workers)
    return rank
