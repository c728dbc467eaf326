"""The CPU of a server by stage, in one thread, as CPU per rank and second.

    python -m benchmarks.stages --ranks 1024 --seconds 60
    python -m benchmarks.stages --ranks 1024 --seconds 60 --profile detectors   # profile one stage

Envelopes for the given seconds are made as streamers make them. The parts of the server get them in the
server's own rhythm: stored every ``--commit`` seconds, analyzed as they come, judged once a second at most.
HTTP and contention between threads are not included; ``benchmarks/ingest.py`` measures them. The first half
is not counted, since its windows are still growing.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.envelopes import RUN, SECOND, streamers
from loaderwatch.core import wire
from loaderwatch.core.answers import Verdict
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.incidents.verdict import verdict_of
from loaderwatch.server.encoding import encode_json
from loaderwatch.server.live.judge import Judge
from loaderwatch.server.live.summary import outline, summary_of
from loaderwatch.server.process import suit_many_ranks
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.server.times import envelope_s
from loaderwatch.server.window.builder import WindowBuilder
from loaderwatch.server.window.replay import complete


class Stages:
    """CPU seconds of the whole process by stage."""

    def __init__(self, profiled: str | None) -> None:
        self.took_s: defaultdict[str, float] = defaultdict(float)
        self.times: defaultdict[str, int] = defaultdict(int)
        self.profile = cProfile.Profile()
        self._profiled = profiled
        self.counting = False

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count what the block takes."""
        began = time.process_time()
        profiles = self.counting and name == self._profiled
        if profiles:
            self.profile.enable()
        yield
        if profiles:
            self.profile.disable()
        if self.counting:
            self.took_s[name] += time.process_time() - began
            self.times[name] += 1


def measure(ranks: int, seconds: float, commit_s: float, profiled: str | None = None) -> Stages:
    """Give the parts of a server what ``ranks`` send in ``seconds``."""
    interval_s = envelope_s(ranks)
    stages, sources, start_ns = Stages(profiled), streamers(ranks, 2, interval_s), time.time_ns()
    builder, judge = WindowBuilder(RUN, in_part=True), Judge(RUN)
    verdict: Verdict | None = None
    commits = max(1, round(interval_s / commit_s))
    with tempfile.TemporaryDirectory(prefix="loaderwatch-bench-") as folder:
        store = DuckDBStore(Path(folder))
        for tick in range(int(seconds / interval_s)):
            stages.counting = 2 * tick * interval_s >= seconds
            made_ns = start_ns + int((tick + 1) * interval_s * SECOND)
            payloads = [wire.encode(source.envelope(made_ns)) for source in sources]
            with stages.stage("decode"):
                envelopes = [wire.decode(payload) for payload in payloads]
            for first in range(commits):
                with stages.stage("store"):
                    store.append(envelopes[first::commits])
            with stages.stage("rows"):
                builder.add_all(envelopes)
            with stages.stage("outliers"):
                builder.choose(())
                complete(builder, store)
            with stages.stage("window"):
                window = builder.window()
                evidence = RunEvidence(window)
            with stages.stage("totals"):
                totals = builder.totals()
            with stages.stage("summary"):
                summary = summary_of(evidence, totals, state="live", verdict=verdict)
            with stages.stage("encoding"):
                encode_json(outline(summary))
            if tick % 2 or interval_s >= 1:
                with stages.stage("detectors"):
                    findings = detect(evidence)
                    judge.begin(window, window.now_ns)
                    judge.judge(window, findings, window.now_ns)
                    verdict = verdict_of("live", partial(_as_it_is, evidence), judge.book.open_alerts())
                with stages.stage("rollups"):
                    store.tidy()
        store.close()
    return stages


def _as_it_is(run: RunEvidence) -> RunEvidence:
    return run


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--commit", type=float, default=0.1, help="seconds between commits of the store")
    parser.add_argument("--profile", help="a stage to profile")
    options = parser.parse_args()
    suit_many_ranks()
    stages = measure(options.ranks, options.seconds, options.commit, options.profile)
    counted_s = options.seconds / 2
    print(f"{options.ranks} ranks, the last {counted_s:g} of {options.seconds:g} s")
    for name, took_s in sorted(stages.took_s.items(), key=lambda one: -one[1]):
        each_us = took_s / counted_s / options.ranks * 1e6
        print(
            f"{name:10} {took_s / counted_s:7.1%} of a core  {each_us:7.1f} us per rank and second"
            f"  {1000 * took_s / stages.times[name]:7.1f} ms each time"
        )
    whole = sum(stages.took_s.values()) / counted_s
    print(
        f"{'all':10} {whole:7.1%} of a core  {whole / options.ranks * 1e6:7.1f} us per rank and second,"
        " without HTTP"
    )
    print(json.dumps({"benchmark": "stages", "ranks": options.ranks, "of_a_core": whole, **stages.took_s}))
    if options.profile:
        pstats.Stats(stages.profile).sort_stats("cumulative").print_stats(45)


if __name__ == "__main__":
    main()
