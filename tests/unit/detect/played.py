"""A simulated run: workers, queue and loop of a loader, batch by batch, and the findings at each look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.window import WINDOW_S, RankWindow
from loaderwatch.server.window.loader_histories import Courses
from tests.unit.detect.build import T0, RankBuilder, S, loader, run

ENDS_AFTER = {
    "steps": ("wait_ns", "step_ns"),
    "fetches": ("fetch_ns",),
    "gpu_waits": ("starved_ns", "gpu_step_ns"),
}
BEFORE_STEPS = 1e9  # of the first wait: no run is as long


@dataclass(frozen=True)
class Played:
    """The result of a run: its findings with their second, and when the loop first waited noticeably."""

    found: list[tuple[float, Finding]]
    waits_at_s: float

    def first(self, code: str) -> tuple[float, Finding]:
        """When a code was first found, and what was said."""
        return next((at_s, finding) for at_s, finding in self.found if finding.code == code)

    @property
    def codes(self) -> set[str]:
        """Everything that was found."""
        return {finding.code for _, finding in self.found}


def read(
    seconds: float,
    fetch_s: Callable[[float], float],
    step_s: Callable[[float], float] = lambda at_s: 0.05,
    *,
    workers: int = 2,
    prefetch: int = 2,
    batches: int = 1_000_000,
    slack_s: Callable[[float], float] | None = None,
    model_s: Callable[[float], float] | None = None,
    optimizer_s: Callable[[float], float] | None = None,
    batch_bytes: Callable[[float], int] = lambda at_s: 1_000_000,
    cpu: Callable[[float], float] = lambda at_s: 0.0,
) -> tuple[RankBuilder, float]:
    """A rank's rows of so many seconds, and when its loop first waits for longer than a tenth of a step.

    Each function receives the second at which a fetch or step begins. The work left for the device is
    ``slack_s``. Forward, backward and optimizer take ``model_s``; by default a third is ``optimizer_s``.
    The size of a batch is ``batch_bytes``, the CPU share of a fetch ``cpu``. An epoch has ``batches``; the
    queue is empty between two epochs.
    """
    rank = RankBuilder(loaders=[loader(num_workers=workers, prefetch_factor=prefetch, batches=batches)])
    waits_at_s, now, ahead = BEFORE_STEPS, 0.0, workers * prefetch
    while now < seconds:
        rank.batch[0] = 0
        free, done = [now] * workers, [0.0] * batches if batches < 1_000_000 else []

        def dispatch(batch: int, at_s: float) -> None:
            if batch >= batches:
                return
            began = max(at_s, free[batch % workers])  # noqa: B023
            took = fetch_s(began)
            free[batch % workers] = began + took  # noqa: B023
            if batch < len(done):  # noqa: B023
                done[batch] = began + took  # noqa: B023
            else:
                done.append(began + took)  # noqa: B023
            rank.now_ns = T0 + int((began + took) * S)
            rank.fetch(batch % workers, took, cpu=cpu(began), bytes=batch_bytes(began))

        for batch in range(ahead):
            dispatch(batch, now)
        for batch in range(batches):
            ready = sum(end <= now for end in done[batch : batch + ahead] if end)
            wait = max(0.0, done[batch] - now) + 0.0005
            step = step_s(now)
            if batch > 2 * ahead and wait > 0.1 * step:
                waits_at_s = min(waits_at_s, now)
            rank.now_ns = T0 + int(now * S)
            if slack_s is not None:
                rank.add(
                    "gpu_waits", loader=0, request_ns=rank.now_ns,
                    starved_ns=int(max(0.0, wait - 0.0005) * S),
                    gpu_step_ns=int(step * S), slack_ns=int(slack_s(now) * S),
                )  # fmt: skip
            phases: dict[str, int] = {}
            if model_s is not None:
                whole_s = model_s(now)
                last_s = whole_s / 3 if optimizer_s is None else optimizer_s(now)
                phases |= dict.fromkeys(("forward_ns", "backward_ns"), int((whole_s - last_s) / 2 * S))
                phases["optimizer_ns"] = int(last_s * S)
            elif optimizer_s is not None:
                phases["optimizer_ns"] = int(optimizer_s(now) * S)
            rank.step(wait, step, ready=ready, **phases)
            now += wait + step
            dispatch(batch + ahead, now - step)
            if now >= seconds:
                break
        rank.epoch[0] = rank.epoch.get(0, 0) + 1
    return rank, waits_at_s


def looks(rank: RankBuilder, every_s: float = 1.0) -> Iterator[tuple[float, list[Finding]]]:
    """The findings at each look, from a server's data: the recent window and the courses before it."""
    rank.now_ns = max(row["request_ns"] for row in rank.rows["steps"])  # type: ignore[assignment]
    whole, courses = run(rank), Courses()
    built = whole.ranks[rank.rank]
    ends = {
        name: table["request_ns"] + sum(table[column] for column in ENDS_AFTER[name])
        for name, table in built.tables.items()
        if name in ENDS_AFTER
    }
    for made_ns in range(T0 + S, built.made_ns, int(every_s * S)):
        seen = replace(
            built,
            made_ns=made_ns,
            courses=courses.of(rank.rank),
            tables={
                name: {
                    column: values[(ends[name] <= made_ns) & (table["request_ns"] > made_ns - WINDOW_S * S)]
                    for column, values in table.items()
                }
                if name in ends
                else table
                for name, table in built.tables.items()
            },
        )
        ranks: dict[int, RankWindow] = {rank.rank: seen}
        courses.follow(ranks)
        hosts = {name: replace(host, made_ns=made_ns) for name, host in whole.hosts.items()}
        yield (
            (made_ns - T0) / S,
            detect(RunEvidence(replace(whole, now_ns=made_ns, ranks=ranks, hosts=hosts))),
        )


def played(read_so_far: tuple[RankBuilder, float], every_s: float = 1.0) -> Played:
    """Everything that is found in a run, and when the loop first waits."""
    rank, waits_at_s = read_so_far
    found = [(at_s, finding) for at_s, findings in looks(rank, every_s) for finding in findings]
    return Played(found, waits_at_s)


def noise(share: float, seed: int = 0) -> Callable[[], float]:
    """Factors around 1, log-normal with this spread."""
    random = np.random.default_rng(seed)
    return lambda: float(random.lognormal(0.0, share))
