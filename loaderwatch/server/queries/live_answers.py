"""Answers about the present state of runs: from memory for live runs, else from the store."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

import msgspec
from fastapi.concurrency import run_in_threadpool

from loaderwatch.advise.audit import audit, not_told
from loaderwatch.advise.facts import facts_of
from loaderwatch.advise.option_gains import Estimate, estimates_of
from loaderwatch.advise.whatif import Option, WhatIf, what_if
from loaderwatch.core import answers
from loaderwatch.core.answers import ProfilePartName, RunStatus, Text, Verdict
from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import GpuState, LoaderInfo, SpanInfo
from loaderwatch.core.from_records import from_records
from loaderwatch.core.records import UNKNOWN
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.hang.rank_positions import Place, patience, places
from loaderwatch.detect.measures.boundaries import usual_wait_s
from loaderwatch.detect.measures.coupling import Coupling
from loaderwatch.detect.measures.critical_path import with_open_iteration
from loaderwatch.detect.measures.rebuilt_loaders import joined_rank
from loaderwatch.detect.measures.statistics import last
from loaderwatch.detect.slow_step.weak_gpu import throttle_reasons
from loaderwatch.detect.window import HostWindow, RankWindow, RunWindow
from loaderwatch.server.alerts.alert_book import Alert, AlertBook, UnknownAlert, run_of, shape, stack_of
from loaderwatch.server.live.event_stream import RunState
from loaderwatch.server.live.summary import MOST_HOSTS, state_now
from loaderwatch.server.queries.charts import epoch_of, seconds, stored_summary
from loaderwatch.server.queries.profile import profile_in, stored_profile
from loaderwatch.server.recordings.verdict_cache import Verdicts, stored_alerts, stored_verdict
from loaderwatch.server.services import Parts
from loaderwatch.server.store.protocol import Store, StoredRun, UnknownRun
from loaderwatch.texts import say


def what_if_of(run: RunEvidence, rank: int | None) -> list[answers.WhatIf]:
    """Return a rank's training loaders with other settings.

    Without a rank, the answer is about a rank that others wait for, else about the lowest rank that has an
    answer. A rank that waits for another one gains nothing from other settings.
    """
    window = run.window
    if rank is None:
        coupling = run.recent_coupling
        late = coupling.waited_for if coupling is not None and coupling.cause == "data" else ()
        ranks = [*late, *sorted(set(window.ranks) - set(late))]
    else:
        ranks = [rank] if rank in window.ranks else []
    for number in ranks:
        loaders = [loader for loader in window.ranks[number].process.loaders if loader.role == "train"]
        simulated = [(loader, what_if(run, number, loader.loader)) for loader in loaders]
        possible = [_answer(window, number, loader, r) for loader, r in simulated if r is not None]
        if possible:
            return possible
    return []


def _answer(window: RunWindow, rank: int, loader: LoaderInfo, found: WhatIf) -> answers.WhatIf:
    cpus = found.pipeline.cpus
    free_bytes, free_in = _free(window, rank)
    return from_records(
        answers.WhatIf,
        found,
        loader,
        rank=rank,
        measured_per_s=1 / found.measured_s,
        today=_setting(found.today),
        workers=[_setting(option) for option in found.workers],
        others=[_setting(option) for option in found.others],
        cpus=cpus if math.isfinite(cpus) else None,
        fetch_cpus=found.pipeline.fetch_cpus,
        options=[_option(estimate) for estimate in estimates_of(window, rank, loader.loader, found)],
        free_bytes=int(free_bytes) if math.isfinite(free_bytes) else None,
        free_in=free_in,
    )


def _free(window: RunWindow, rank: int) -> tuple[float, str]:
    """Return the bytes free for batches on a rank's host (NaN if unknown), and the place with the fewest."""
    host = window.hosts.get(window.ranks[rank].host)
    if host is None:
        return math.nan, "memory"
    free, total, used = (
        last(host.hosts[name]) for name in ("memory_available_bytes", "shm_total_bytes", "shm_used_bytes")
    )
    shm = total - used  # NaN without /dev/shm
    return (max(shm, 0.0), "/dev/shm") if shm < free or not math.isfinite(free) else (free, "memory")


def _option(estimate: Estimate) -> answers.LoaderOption:
    return from_records(answers.LoaderOption, estimate, rests_on_text=estimate.basis)


def _setting(option: Option) -> answers.LoaderSetting:
    return from_records(
        answers.LoaderSetting,
        option,
        option.setting,
        least_per_s=1 / option.most_s,
        most_per_s=1 / option.least_s,
    )


MOST_EPOCHS: Final = 1000
"""Most epochs of a loader in one answer."""

_S: Final = 1e9


def boundaries_of(window: RunWindow, rank: int | None, limit: int) -> list[answers.LoaderEpochs]:
    """Return the loaders that started an epoch, with their newest ``limit`` epochs. Rank None: all ranks.

    Loaders that are rebuilt for each epoch count as one, and epochs cost the same as in the findings.
    """
    loaders_with_epochs = []
    for number in sorted(window.ranks):
        if rank is None or rank == number:
            joined = joined_rank(window.ranks[number])
            loaders = [_epochs_of(joined, loader, limit) for loader in joined.process.loaders]
            loaders_with_epochs += [loader for loader in loaders if loader.epochs]
    return loaders_with_epochs


def _epochs_of(rank: RankWindow, loader: LoaderInfo, limit: int) -> answers.LoaderEpochs:
    usual_s = usual_wait_s(rank, loader)
    begins = _rows(rank.table("epoch_begins"), loader.loader)
    ends = {row["epoch"]: row for row in _rows(rank.table("epoch_ends"), loader.loader)}
    parts = [
        _parts(begin, ends.get(begin["epoch"], {}), begins[i + 1] if i + 1 < len(begins) else {}, usual_s)
        for i, begin in enumerate(begins)
    ]
    return from_records(
        answers.LoaderEpochs,
        loader,
        rank=rank.rank,
        epochs=len(parts),
        cost_s=sum(part.cost_s for part in parts),
        usual_wait_s=usual_s,
        newest=parts[-limit:],
    )


def _rows(table: Columns, loader: int) -> list[dict[str, Any]]:
    """Return the loader's rows, oldest first; unknown values are None."""
    columns = {name: values[table["loader"] == loader].tolist() for name, values in table.items()}
    return [
        {name: None if value == UNKNOWN else value for name, value in zip(columns, row, strict=True)}
        for row in zip(*columns.values(), strict=True)
    ]


def _parts(
    begin: dict[str, Any], end: dict[str, Any], after: dict[str, Any], usual_s: float
) -> answers.EpochParts:
    ended = {name: end.get(name) for name in ("teardown_ns", "batches", "ended_by")}
    epoch = epoch_of({**begin, "end_ns": end.get("request_ns"), **ended})
    iter_s, first_s = epoch.iter_s, epoch.first_wait_s
    steady_s = None
    if epoch.ended_at is not None and iter_s is not None and first_s is not None:
        steady_s = max(0.0, (end["request_ns"] - begin["request_ns"]) / _S - iter_s - first_s)
    return from_records(
        answers.EpochParts,
        epoch,
        start_s=None if iter_s is None else max(0.0, iter_s - (epoch.sampler_s or 0.0)),
        first_batch_s=first_s,
        steady_s=steady_s,
        gap_s=seconds(after.get("gap_ns")),
        cost_s=(iter_s or 0.0) + max(0.0, (first_s or 0.0) - usual_s) + (epoch.teardown_s or 0.0),
    )


def coupling_of(run: RunEvidence) -> answers.Coupling:
    """Return both in one form: the ranks in ``waiting`` wait for those in ``waited_for``.

    The iterations are those of the last half minute, as on the tiles, including the current one.
    """
    coupling = run.recent_coupling or Coupling("unknown", Text("coupling-of-one-rank"))
    coupling = with_open_iteration(run.window, coupling, run.use)
    standing = places(run)
    going = from_records(
        answers.Coupling,
        coupling,
        reason="" if coupling.reason is None else say(coupling.reason),
        reason_text=coupling.reason,
        waiting=list(coupling.waiting),
        waited_for=list(coupling.waited_for),
        ranks=list(coupling.shares),
        places=[_place(place) for place in standing],
        given_up_in_s=None,
        timeout_s=None,
    )
    if not standing:
        return going
    waiting = [rank for place in standing if place.collective for rank in place.ranks]
    others = [rank for place in standing if not place.collective for rank in place.ranks]
    left = patience([position for place in standing for position in place.positions])
    return msgspec.structs.replace(
        going,
        state="standing",
        reason="",
        reason_text=None,
        waiting=waiting,
        waited_for=others if waiting else [],
        wait_s=max((place.position.age_s for place in standing if place.collective), default=None),
        cause=None,
        where=None,
        given_up_in_s=max(0.0, left.left_s) if left else None,
        timeout_s=left.timeout_s if left else None,
    )


def _place(place: Place) -> answers.Place:
    return from_records(
        answers.Place,
        place,
        stands=say(place.stands),
        stands_text=place.stands,
        at=None if place.at is None else say(place.at),
        at_text=place.at,
        for_s=place.position.age_s if place.state == "stands" else None,
        stack=None if place.dump is None else stack_of(place.dump),
    )


def gpus_in(window: RunWindow, host: str | None, limit: int | None) -> list[answers.Gpu]:
    """Return at most ``limit`` GPUs of one host.

    Without a host, return those of all hosts by name; of a large run, only of hosts kept in detail.
    """
    shown = window.ranks_by_host if window.summed and host is None else window.hosts
    hosts = sorted((name, window.hosts[name]) for name in shown if name in window.hosts)
    gpus = (gpu for name, window_of_host in hosts if host in (None, name) for gpu in gpus_of(window_of_host))
    return list(islice(gpus, limit))


def gpus_of(host: HostWindow) -> list[answers.Gpu]:
    """Return the host's GPUs in NVML's order, as of the last look."""
    states = {state.gpu: state for state in host.gpu_states}
    ranks: dict[int, list[int]] = {}
    for info in host.gpus:
        own = ranks.setdefault(info.gpu, [])
        if info.rank is not None:
            own.append(info.rank)
    gpus = []
    for info in host.gpus[: len(ranks)]:  # later entries are further ranks on the same GPUs
        state = states.get(info.gpu) or GpuState(gpu=info.gpu)
        slowed_by = throttle_reasons(state.throttle_reasons or 0)
        gpus.append(
            from_records(
                answers.Gpu,
                info,
                state,
                host,
                host=host.info.name,
                ranks=ranks[info.gpu],
                slowed_by=[say(reason) for reason in slowed_by],
                slowed_by_texts=slowed_by,
                processes=[from_records(answers.GpuProcess, process) for process in state.processes],
            )
        )
    return gpus


_LIST_S: Final = 0.3
_SAMPLED: Final = ("state", "cpu_ratio", "rss_bytes", "threads", "fds")
"""Columns of the table ``processes`` in a worker's row."""


def runs(parts: Parts, wanted: Callable[[str], bool] = lambda _: True) -> list[answers.RunRow]:
    """Answer ``GET /runs`` for the ``wanted`` runs.

    If hundreds of files must be opened, older runs come without a verdict after ``_LIST_S``. They get it when
    the list is requested again.
    """
    now_ns = time.time_ns()
    deadline = time.monotonic() + _LIST_S
    stored_runs = parts.store.runs()
    rows = [_row(parts, run, now_ns, deadline) for run in stored_runs if wanted(run.run_id)]
    parts.verdicts.save(stored_runs)
    return rows


def _row(parts: Parts, run: StoredRun, now_ns: int, deadline: float) -> answers.RunRow:
    live = parts.live.get(run.run_id)
    summary = None if live is None else live.summary
    if live is None or summary is None:
        return _row_with(run, state_now(run, now_ns), parts.verdicts.of(run, now_ns, deadline), run.steps)
    state = live.state_of(run)
    seen = state == "live" or live.said_goodbye  # all values of a row must come from the same look
    return _row_with(run, summary.state if seen else state, summary.verdict, summary.steps)


def stored_row(run: StoredRun, store: Store, now_ns: int) -> answers.RunRow:
    """Make a run's row of ``GET /runs`` without a server."""
    return _row_with(run, state_now(run, now_ns), Verdicts(store).of(run, now_ns, math.inf), run.steps)


def _row_with(run: StoredRun, state: RunStatus, verdict: Verdict | None, steps: int | None) -> answers.RunRow:
    return from_records(
        answers.RunRow,
        run,
        run.labels,
        name=run.shown_name,
        state=state,
        hosts=[host.name for host in run.hosts[:MOST_HOSTS]],
        host_count=len(run.hosts),
        steps=steps,
        attempts=run.attempt,
        verdict=verdict.title if verdict else None,
        severity=verdict.severity if verdict else None,
        script=run.name,
        verdict_text=Text(verdict.rule, verdict.params, "title") if verdict and verdict.rule else None,
    )


async def run_state(parts: Parts, run_id: str, attempt: int | None = None) -> RunState:
    """Return summary and findings of a run, live or stored, or of an earlier attempt.

    Raises:
        UnknownRun, UnknownAttempt
    """
    if attempt is not None:
        run = await run_in_threadpool(parts.store.run, run_id)
        if attempt != run.attempt:
            return await run_in_threadpool(_stored_state, parts, run_id, attempt)
    live = parts.live.get(run_id)
    if live is not None:
        return await parts.live.state_of(live)
    return await run_in_threadpool(_stored_state, parts, run_id, None)


def findings_followed(parts: Parts, run_id: str, attempt: int | None = None) -> list[answers.Finding]:
    """Answer ``GET /runs/{run}/findings``, with the later runs that followed the newest attempt's advice."""
    answer = findings(parts, run_id, attempt)
    run = parts.store.run(run_id)
    return parts.later_runs.mark(run, answer) if attempt in (None, run.attempt) else answer


def findings(parts: Parts, run_id: str, attempt: int | None = None) -> list[answers.Finding]:
    """Return the findings of a run's attempt (None: the newest), newest first."""
    run = parts.store.run(run_id)  # raises for an unknown run
    live = parts.live.get(run_id)
    if live is not None and attempt in (None, run.attempt):
        return live.findings()
    return [shape(alert) for alert in stored_alerts(run, parts.store, attempt)]


def change_alert(parts: Parts, alert_id: str, action: Callable[[AlertBook], Alert]) -> answers.Finding:
    """Acknowledge or silence an alert, and return the changed alert.

    Raises:
        UnknownAlert
    """
    run_id = run_of(alert_id)
    live = parts.live.get(run_id)
    if live is not None:
        return shape(live.change(action))
    try:
        book = AlertBook(run_id, parts.store.alerts(run_id))
    except UnknownRun:
        raise UnknownAlert(alert_id) from None
    alert = action(book)
    parts.store.save_alerts(run_id, book.take_unsaved())
    return shape(alert)


def audit_of(parts: Parts, run_id: str) -> list[answers.Advice]:
    """Answer ``GET /runs/{run}/audit``."""
    return not_told(audit(facts_of(_window(parts, run_id))), findings(parts, run_id))


def what_if_now(parts: Parts, run_id: str, rank: int | None) -> list[answers.WhatIf]:
    """Answer ``GET /runs/{run}/what-if``."""
    return what_if_of(_evidence(parts, run_id, rank), rank)


def coupling_now(parts: Parts, run_id: str) -> answers.Coupling:
    """Answer ``GET /runs/{run}/coupling``."""
    return coupling_of(_evidence(parts, run_id))


def boundaries(
    parts: Parts, run_id: str, rank: int | None, limit: int, attempt: int | None
) -> list[answers.LoaderEpochs]:
    """Answer ``GET /runs/{run}/boundaries``."""
    if attempt in (None, parts.store.run(run_id).attempt):
        return boundaries_of(_window(parts, run_id, rank), rank, limit)
    return boundaries_of(parts.stored_windows.of(run_id, attempt).window, rank, limit)


def workers(parts: Parts, run_id: str, rank: int | None) -> list[answers.Worker]:
    """Answer ``GET /runs/{run}/workers``."""
    window = _window(parts, run_id, rank)
    rows: list[answers.Worker] = []
    for number in sorted(window.ranks):
        if rank is None or rank == number:
            rows += _rank_rows(window.ranks[number])
    return rows


def gpus(parts: Parts, run_id: str, host: str | None, limit: int | None) -> list[answers.Gpu]:
    """Answer ``GET /runs/{run}/gpus``."""
    return gpus_in(_window(parts, run_id), host, limit)


def stacks(parts: Parts, run_id: str, rank: int | None) -> list[answers.Stack]:
    """Answer ``GET /runs/{run}/stacks``."""
    window = _window(parts, run_id, rank)
    return [
        stack_of(stack)
        for number in sorted(window.ranks)
        if rank is None or rank == number
        for stack in sorted(window.ranks[number].stacks, key=lambda stack: stack.worker)
    ]


def profile(
    parts: Parts,
    run_id: str,
    of: ProfilePartName,
    rank: int | None,
    start: float | None,
    end: float | None,
    attempt: int | None,
) -> answers.Profile:
    """Answer ``GET /runs/{run}/profile``."""
    try:
        return stored_profile(parts.store, run_id, of, rank, start, end, attempt)
    except UnknownRun:
        live = parts.live.get(run_id)
        known = live.evidence() if live is not None else None
        if known is None:
            raise
        return profile_in(known, of, rank)


def _window(parts: Parts, run_id: str, rank: int | None = None) -> RunWindow:
    """Return the run's newest window; from the next one on, a requested ``rank`` is kept in detail."""
    return _evidence(parts, run_id, rank).window


def _evidence(parts: Parts, run_id: str, rank: int | None = None) -> RunEvidence:
    """Return the evidence of that window."""
    live = parts.live.get(run_id)
    if live is not None:
        live.attend(rank)
    known = live.evidence() if live is not None else None
    return known if known is not None else parts.stored_windows.of(run_id).evidence


def _stored_state(parts: Parts, run_id: str, attempt: int | None) -> RunState:
    """Return the state of the newest attempt (None) or of an earlier one."""
    store, now_ns = parts.store, time.time_ns()
    run = store.run(run_id)
    alerts = stored_alerts(run, store, attempt)
    verdict = (
        parts.verdicts.of(run, now_ns, math.inf)
        if attempt is None
        else stored_verdict(run, store, now_ns, attempt)
    )
    costs_s = [alert.cost_s for alert in alerts]
    summary = stored_summary(store, run_id, verdict, costs_s, attempt, parts.stored_windows)
    shaped_findings = [shape(alert, stack_texts=False) for alert in alerts]
    return RunState.of(summary, shaped_findings, int(summary.last_seen_at * 1e9))


def _rank_rows(rank: RankWindow) -> list[answers.Worker]:
    samples = _newest_by_pid(rank.table("processes"))
    spans = ([rank.span] if rank.span is not None else []) + sorted(rank.workers, key=lambda s: s.worker)
    return [_row_of(span, rank.made_ns, samples.get(span.pid, {})) for span in spans]


def _row_of(span: SpanInfo, made_ns: int, sample: dict[str, float | None]) -> answers.Worker:
    state = sample.get("state")
    return from_records(
        answers.Worker,
        span,
        sample or dict.fromkeys(_SAMPLED),
        phase_age_s=max(0.0, (made_ns - span.since_ns) / 1e9),
        sample_age_s=None
        if span.sample_since_ns is None
        else max(0.0, (made_ns - span.sample_since_ns) / 1e9),
        os_state=span.os_state or (chr(int(state)) if state else None),
    )


def _newest_by_pid(processes: Columns) -> dict[int, dict[str, float | None]]:
    """Return the last row of each process; rows are in time order."""
    newest = {int(pid): index for index, pid in enumerate(processes["pid"])}
    return {pid: {name: _known(processes[name][index]) for name in _SAMPLED} for pid, index in newest.items()}


def _known(value: Any) -> float | None:
    number = value.item()
    return None if number == UNKNOWN or (isinstance(number, float) and math.isnan(number)) else number
