"""``/metrics`` for Prometheus: metrics of the live runs and of this server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from fastapi import APIRouter, Request
from starlette.responses import Response

from loaderwatch.core.answers import RankRow
from loaderwatch.core.printable import printable
from loaderwatch.server.services import Parts

router = APIRouter()

_Rows = list[tuple[Mapping[str, str], float | None]]


@router.get("/metrics")
def metrics(request: Request) -> Response:
    """Return the metrics as Prometheus text."""
    return Response(_text(request.app.state.parts), media_type="text/plain; version=0.0.4; charset=utf-8")


def _text(parts: Parts) -> str:
    """Return all metrics in the text exposition format."""
    lines: list[str] = []
    for name, kind, what, rows in (*_of_runs(parts), *_of_server(parts)):
        known = [(labels, value) for labels, value in rows if value is not None]
        if known:
            lines += [f"# HELP {name} {what}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{_labels(labels)} {value!r}" for labels, value in known]
    return "\n".join(lines) + "\n"


def _of_runs(parts: Parts) -> Iterable[tuple[str, str, str, _Rows]]:
    ranks: list[tuple[dict[str, str], RankRow]] = []
    firing: _Rows = []
    ages: _Rows = []
    for live in parts.live.all():
        summary = live.summary
        if summary is None:
            continue
        run = {"run": live.run_id, "name": summary.name}
        firing.append((run, len(live.firing())))
        ages.append((run, summary.last_seen_at))
        ranks += [({**run, "rank": str(rank.rank)}, rank) for rank in summary.ranks]

    def per_rank(value: Callable[[RankRow], float | None]) -> _Rows:
        return [(labels, value(rank)) for labels, rank in ranks]

    return (
        (
            "loaderwatch_data_wait_ratio",
            "gauge",
            "Share of time lost to waiting for data, last 30 s;"
            " by the clock of the device where that is known.",
            per_rank(lambda rank: rank.data_wait_ratio),
        ),
        (
            "loaderwatch_steps_total",
            "counter",
            "Training steps of the attempt that goes on.",
            per_rank(lambda rank: rank.step),
        ),
        (
            "loaderwatch_eval_batches_total",
            "counter",
            "Batches of evaluation loaders, apart from the steps.",
            per_rank(lambda rank: rank.eval_batches),
        ),
        (
            "loaderwatch_steps_per_second",
            "gauge",
            "Training steps per second, last 30 s.",
            per_rank(lambda rank: rank.steps_per_s),
        ),
        (
            "loaderwatch_gpu_utilization_ratio",
            "gauge",
            "NVML utilization of the rank's GPU, last 30 s.",
            per_rank(lambda rank: rank.gpu_utilization_ratio),
        ),
        ("loaderwatch_alerts_firing", "gauge", "Alerts firing, remarks excluded.", firing),
        ("loaderwatch_run_last_seen_timestamp_seconds", "gauge", "When the run was last heard of.", ages),
    )


def _of_server(parts: Parts) -> Iterable[tuple[str, str, str, _Rows]]:
    ingest, looks, notify = parts.ingest_counts, parts.live.counts, parts.notifier.counts()
    detections = sum(live.detections for live in parts.live.all())
    faults = sum(live.detector_faults for live in parts.live.all())
    detect_s = sum(live.detect_s for live in parts.live.all())
    servers = None if parts.peers is None else parts.peers.count
    plain: tuple[tuple[str, str, str, float | None], ...] = (
        ("ingest_envelopes_total", "counter", "Envelopes stored or known already.", ingest.accepted),
        ("ingest_bytes_total", "counter", "Bytes of those.", ingest.bytes),
        ("ingest_rejected_total", "counter", "Malformed envelopes.", ingest.rejected + ingest.too_large),
        ("ingest_busy_total", "counter", "Envelopes told to come again later.", ingest.busy),
        ("live_runs", "gauge", "Runs in memory.", len(parts.live)),
        ("live_bytes", "gauge", "Memory their windows take, about.", parts.live.held_bytes),
        ("looks_total", "counter", "Looks at live runs.", looks.looks),
        (
            "looks_skipped_total",
            "counter",
            "Looks left out because the one before was not done.",
            looks.skipped,
        ),
        ("looks_failed_total", "counter", "Looks that ended in an error; see the log.", looks.failed),
        ("detections", "gauge", "Detector passes over the runs in memory.", detections),
        ("detection_seconds", "gauge", "Time those took.", detect_s),
        ("detector_faults", "gauge", "Detector passes that failed; see the log.", faults),
        ("event_clients", "gauge", "Pages following a run.", parts.hub.clients),
        ("servers", "gauge", "Servers of this database, with this one.", servers),
        ("notify_sent_total", "counter", "Messages delivered.", notify.sent),
        ("notify_failed_total", "counter", "Messages given up after retries.", notify.failed),
        ("notify_dropped_total", "counter", "Messages dropped because too many waited.", notify.dropped),
        ("notify_waiting", "gauge", "Messages waiting.", notify.waiting),
    )
    return [(f"loaderwatch_{name}", kind, what, [({}, value)]) for name, kind, what, value in plain]


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items()) + "}"


def _escape(value: str) -> str:
    """Escape a label's value without control characters: any trainer may name a job, and could end a line."""
    return printable(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
