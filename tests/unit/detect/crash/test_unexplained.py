"""What is said of a run in which a process died, and which of these deaths are reported."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from loaderwatch.core.answers import Verdict
from loaderwatch.core.records import EndedBy
from loaderwatch.detect.crash.unexplained import crash_verdict, detect, ending
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, Texts
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.alerts.alert_book import Alert
from loaderwatch.server.window.builder import WindowBuilder
from tests.fakes.feed import Feed
from tests.fakes.findings import finding_of
from tests.fakes.runs import SECOND, T0, envelope, process, span, table

AT = T0 + 30 * SECOND
CLOCK = time.strftime("%H:%M:%S %Z", time.localtime(AT / 1e9))


def _verdict(
    *,
    spans: list[Any],
    world: int = 1,
    free: float = 50e9,
    tables: dict[str, dict[str, bytes]] | None = None,
    **more: Any,
) -> Verdict:
    builder = WindowBuilder("run-1")
    samples = table("processes", rank=[0], worker=-1, pid=1000, t_ns=AT, rss_bytes=3e9)
    host = table("hosts", t_ns=[AT], memory_available_bytes=free, memory_total_bytes=64e9)
    crashed = process(0, world, **({"state": "crashed"} | more))
    others = [process(rank, world) for rank in range(1, world)]
    known = {"processes": samples, "hosts": host, **(tables or {})}
    builder.add(envelope(31, processes=[crashed, *others], spans=spans, tables=known))
    return crash_verdict(builder.window(), [])


@pytest.mark.parametrize(
    ("facts", "where"),
    [
        ({"phase": "wait", "awaited_worker": 1}, ", while waiting for data (worker 1's batch)"),
        ({"phase": "wait"}, ", while waiting for data"),
        ({"phase": "backward"}, ", in the backward pass"),
        ({"phase": "user", "phase_name": "checkpoint"}, ", in the phase 'checkpoint'"),
        ({"phase": "of a newer agent"}, ""),
    ],
)
def test_when_and_where_it_died(facts: dict[str, Any], where: str) -> None:
    open_span = span(0, T0, **facts, step=118, epoch=2, alive=False)
    verdict = _verdict(spans=[open_span])
    said = f"The training process (pid 1000) crashed at {CLOCK} in step 118 of epoch 2{where}."
    assert verdict.title == said
    assert verdict.severity == "critical"
    assert "dmesg" in verdict.advice
    assert "50 GB of the host's 64 GB were free, the process used 3.0 GB" in verdict.advice


def _epochs(ended_by: EndedBy, *, loader: int = 0, in_iter: bool = False) -> dict[str, dict[str, bytes]]:
    """Epoch 1 of a loader, ended a second before the last sign of life."""
    ended_ns = AT - SECOND
    began_ns = ended_ns if in_iter else T0
    return {
        "epoch_begins": table(
            "epoch_begins", rank=[0], loader=loader, epoch=1, request_ns=began_ns, iter_ns=5
        ),
        "epoch_ends": table(
            "epoch_ends",
            rank=[0],
            loader=loader,
            epoch=1,
            request_ns=ended_ns,
            teardown_ns=5,
            ended_by=ended_by,
        ),
    }


OUTSIDE = span(0, AT - SECOND, phase="outside", steps=251, alive=False)


@pytest.mark.parametrize(
    ("tables", "where"),
    [
        (_epochs(EndedBy.BREAK), "in step 251, in epoch 1"),
        (_epochs(EndedBy.ERROR), "in step 251, in epoch 1, while waiting for data"),
        (
            _epochs(EndedBy.ERROR, in_iter=True),
            "in step 251, in epoch 1, while its workers were started (inside iter(loader))",
        ),
        (_epochs(EndedBy.BREAK, loader=1), "in step 251, in the pass over val_loader"),
        (_epochs(EndedBy.EXHAUSTED), "after step 251, after epoch 1"),
        (_epochs(EndedBy.EXHAUSTED, loader=1), "in step 251, outside its training loops"),
    ],
)
def test_an_error_is_placed_in_the_epoch_that_it_left(
    tables: dict[str, dict[str, bytes]], where: str
) -> None:
    error = "ValueError: loss is nan"
    verdict = _verdict(spans=[OUTSIDE], tables=tables, exit=f"uncaught {error}")
    crashed = f"The training process (pid 1000) crashed (uncaught {error}) at {CLOCK}"
    assert verdict.title == f"{crashed} {where}."
    assert verdict.severity == "critical"
    assert verdict.advice == f"Read the traceback in the job's log: {error}"
    stopped = _verdict(spans=[OUTSIDE], tables=tables, exit="uncaught KeyboardInterrupt")
    assert stopped.title == f"Stopped by Ctrl-C (KeyboardInterrupt) {where}."
    assert stopped.severity == "info"
    assert not any(word in stopped.advice for word in ("dmesg", "emory", "GB"))


def test_an_epoch_that_was_left_long_before_or_by_no_error_is_over() -> None:
    earlier = span(0, AT - 60 * SECOND, phase="outside", steps=251, alive=False)
    where = "after step 251, after it had left epoch 1."
    assert _verdict(
        spans=[earlier], tables=_epochs(EndedBy.BREAK), exit="uncaught OSError: x"
    ).title.endswith(where)
    killed = _verdict(spans=[OUTSIDE], tables=_epochs(EndedBy.BREAK))
    assert killed.title.endswith(where)
    assert "dmesg" in killed.advice
    before = span(0, AT, phase="outside", alive=False)
    assert _verdict(spans=[before]).title.endswith("before its first epoch.")


def test_ctrl_c_speaks_for_ranks_that_were_killed_with_it_but_not_for_an_error() -> None:
    def crashed(rank: int, text: str | None) -> Any:
        return process(rank, 2, state="crashed", exit=text)

    def title(*texts: str | None) -> str:
        builder = WindowBuilder("run-1")
        builder.add(
            envelope(31, processes=[crashed(rank, text) for rank, text in enumerate(texts)], spans=[])
        )
        return str(crash_verdict(builder.window(), []).title)

    assert title(None, "uncaught KeyboardInterrupt") == "Stopped by Ctrl-C (KeyboardInterrupt)."
    assert title("uncaught ValueError: x", "uncaught KeyboardInterrupt").startswith(
        "Rank 0 (pid 1000) crashed"
    )


@pytest.mark.parametrize(
    ("facts", "by"),
    [
        ({"exit_code": -15}, "SIGTERM"),
        ({"exit_code": -2}, "SIGINT"),
        ({"exit_code": -1}, "SIGHUP"),
        ({"exit_code": 143}, "SIGTERM"),  # os._exit(143)
        ({"exit": "exit code 143", "exit_code": 143}, "SIGTERM"),
        ({"exit": "exit code 130"}, "SIGINT"),
        ({"exit": "uncaught KeyboardInterrupt", "exit_code": 1}, "Ctrl-C (KeyboardInterrupt)"),
    ],
)
@pytest.mark.parametrize("free", [50e9, 1e9])
def test_a_stop_is_said_as_a_stop_and_no_memory_is_blamed(
    facts: dict[str, Any], by: str, free: float
) -> None:
    open_span = span(0, T0, phase="wait", step=127, epoch=2, alive=False)
    verdict = _verdict(spans=[open_span], free=free, **facts)
    assert verdict.title == f"Stopped by {by} in step 127 of epoch 2, while waiting for data."
    assert verdict.severity == "info"
    assert verdict.advice.endswith("Nothing failed.")
    assert not any(word in verdict.advice.lower() for word in ("memory", "dmesg", "gb"))


@pytest.mark.parametrize(
    ("facts", "told", "untold"),
    [
        ({"exit_code": -9}, ("SIGKILL", "dmesg"), "killer"),
        ({"exit_code": -11}, ("SIGSEGV", "PYTHONFAULTHANDLER"), "emory"),
        ({"exit_code": -6}, ("SIGABRT", "PYTHONFAULTHANDLER"), "emory"),
        ({"exit_code": -10}, ("SIGUSR1", "scheduler"), "emory"),
        ({"exit_code": 3}, ("exit code 3", "sys.exit"), "emory"),
        ({"exit": "exit code 3", "exit_code": 3}, ("exit code 3", "sys.exit"), "emory"),
        ({}, ("dmesg",), "killer"),
    ],
)
def test_what_is_known_of_the_end_is_said_and_nothing_else_is_guessed(
    facts: dict[str, Any], told: tuple[str, ...], untold: str
) -> None:
    verdict = _verdict(spans=[span(0, T0, step=5, alive=False)], **facts)
    assert all(word in f"{verdict.title} {verdict.advice}" for word in told)
    assert untold not in verdict.advice


def test_who_died_is_told_before_those_whom_the_launcher_stopped_for_it() -> None:
    def verdict(first: dict[str, Any], second: dict[str, Any]) -> Verdict:
        builder = WindowBuilder("run-1")
        samples = table(
            "processes", rank=[0, 1], worker=-1, pid=[1000, 1001], t_ns=[AT - 9 * SECOND, AT], rss_bytes=3e9
        )
        ended = [process(rank, 2, state="crashed", **how) for rank, how in enumerate((first, second))]
        builder.add(envelope(31, processes=ended, spans=[], tables={"processes": samples}))
        return crash_verdict(builder.window(), [])

    terminated = {"exit_code": -15}
    error = verdict(terminated, {"exit": "uncaught ValueError: no", "exit_code": 1})
    assert error.title == f"Rank 1 (pid 1001) crashed (uncaught ValueError: no) at {CLOCK}."
    assert "Stopped" not in verdict(terminated, {}).title  # the other may have been killed
    for chosen in ({"exit_code": 1}, {"exit": "exit code 1", "exit_code": 1}):
        assert verdict(terminated, chosen).title == f"Rank 1 (pid 1001) crashed (exit code 1) at {CLOCK}."
    assert verdict(terminated, terminated).title == "Stopped by SIGTERM."


def test_its_last_words_and_its_rank_are_named() -> None:
    verdict = _verdict(spans=[], world=4, exit="Traceback …\nRuntimeError: " + "x" * 500)
    assert verdict.title.startswith("Rank 0 (pid 1000) crashed (RuntimeError: xxx")
    assert verdict.title.endswith(f"…) at {CLOCK}.")
    assert len(verdict.title) < 260


def test_short_memory_and_a_worker_that_died_are_said_first() -> None:
    spans = [
        span(0, T0, phase="wait", alive=False),
        span(0, T0, worker=0, phase="idle"),
        span(0, T0, worker=1, phase="fetch", alive=False),
    ]
    advice = _verdict(spans=spans, free=1e9).advice
    assert advice.startswith("Find out what ended worker 1 (pid 1020), which died before this process.")
    assert "Memory was short: 1.0 GB of the host's 64 GB were free" in advice
    ended_together = [spans[0], spans[2]]
    assert "died before this process" not in _verdict(spans=ended_together).advice


def test_a_detector_that_knows_why_has_the_word() -> None:
    builder = WindowBuilder("run-1")
    builder.add(Feed().envelope(state="crashed", final=True))
    known = Finding(
        key="crashed:0", code="crashed", scenario="S39", severity="critical", confidence=0.9, began_ns=T0,
        texts=Texts(title="Training died of too little shared memory", cause="c", advice="Use --shm-size."),
    )  # fmt: skip
    verdict = crash_verdict(builder.window(), [Alert("run-1.1", known, "resolved", T0, T0)])
    assert (verdict.title, verdict.finding_id) == (known.title, "run-1.1")


def test_nothing_known_is_still_a_sentence() -> None:
    assert crash_verdict(WindowBuilder("run-1").window(), []).title == "A training process crashed."


@pytest.mark.parametrize(("closed_after_s", "hung_to_the_end"), [(None, True), (32, True), (-20, False)])
def test_a_run_that_hung_until_it_died_is_told_as_a_hang(
    closed_after_s: int | None, hung_to_the_end: bool
) -> None:
    builder = WindowBuilder("run-1")
    stuck = span(0, T0, phase="wait", alive=False)
    builder.add(envelope(31, processes=[process(0, 1, state="crashed")], spans=[stuck]))
    window = builder.window()
    closed = None if closed_after_s is None else T0 + closed_after_s * SECOND
    hang = Finding(
        key="hung:rank0",
        code="hung",
        scenario="S36",
        severity="critical",
        confidence=0.9,
        began_ns=T0,
        texts=Texts(
            title="Training hangs: worker 2 has been stuck for 20 s in dataset[137].",
            cause="",
            advice="Give every read a timeout.",
        ),
    )
    alert = Alert("run-1.1", hang, "firing" if closed is None else "resolved", T0 - 60 * SECOND, T0, closed)
    verdict = crash_verdict(window, [alert])
    assert verdict.title.startswith(hang.title) is hung_to_the_end
    assert (verdict.finding_id == "run-1.1") is hung_to_the_end
    if hung_to_the_end:
        assert "The training process (pid 1000) hung until it ended at" in verdict.title
        assert verdict.advice == hang.advice


def _window(world: int = 1, pid: int = 1000, **facts: Any) -> RunWindow:
    builder = WindowBuilder("run-1")
    ended = msgspec.structs.replace(process(0, world, **({"state": "crashed"} | facts)), pid=pid)
    others = [process(rank, world) for rank in range(1, world)]
    builder.add(envelope(31, processes=[ended, *others], spans=[span(0, T0, step=118, alive=False)]))
    return builder.window()


def _alert(code: str, **more: Any) -> Alert:
    finding = finding_of(
        **{
            "key": f"{code}:rank0", "code": code, "scenario": "S36", "severity": "critical",
            "confidence": 0.9, "began_ns": T0, "title": "It.", "cause": "", "advice": "", "pid": 1000, **more,
        }
    )  # fmt: skip
    return Alert(f"run-1.{code}", finding, "firing", T0, T0)


def unexplained(window: RunWindow, *reported: Alert) -> Finding | None:
    """The finding of a death that no other rule explains."""
    found = detect(RunEvidence(window, reported=lambda: reported))
    return found[0] if found else None


@pytest.mark.parametrize(
    "facts",
    [
        {"exit_code": -9},
        {"exit_code": -11},
        {"exit": "uncaught ValueError: x"},
        {"exit": "uncaught ValueError: x", "exit_code": 1},
        {},  # it vanished, and the kernel does not tell
    ],
)
def test_told(facts: dict[str, Any]) -> None:
    window = _window(**facts)
    found = unexplained(window)
    assert found is not None
    verdict = crash_verdict(window, [])
    assert (found.code, found.severity, found.pid) == ("crashed", "critical", 1000)
    assert (found.title, found.advice) == (verdict.title, verdict.advice)


@pytest.mark.parametrize(
    "facts",
    [
        {"exit_code": -15},
        {"exit_code": -2},
        {"exit_code": -1},
        {"exit_code": 3},  # os._exit(3)
        {"exit": "exit code 143", "exit_code": 143},
        {"exit": "uncaught KeyboardInterrupt", "exit_code": -2},
        {"state": "live"},
        {"state": "finished", "exit_code": 0},
    ],
)
def test_who_stops_a_job_is_not_told(facts: dict[str, Any]) -> None:
    assert unexplained(_window(**facts)) is None


def test_the_rank_that_died_first_is_told_with_its_own_last_words() -> None:
    builder = WindowBuilder("run-1")
    samples = table(
        "processes", rank=[0, 1], worker=-1, pid=[1000, 1001], t_ns=[AT, AT - 2 * SECOND], rss_bytes=3e9
    )
    dead = [
        process(0, 2, state="crashed", exit="uncaught RuntimeError: Connection closed by peer", exit_code=1),
        process(1, 2, state="crashed", exit_code=-6),
    ]
    builder.add(envelope(31, processes=dead, spans=[], tables={"processes": samples}))
    found = unexplained(builder.window())
    assert found is not None
    assert (found.rank, found.pid, found.key) == (1, 1001, "crashed:rank1")
    assert "pid 1001" in found.title
    assert all("Connection closed" not in str(item.value) for item in found.evidence)


def test_who_knows_is_not_told_again() -> None:
    window = _window(exit_code=-9)
    mine = unexplained(window)
    assert mine is not None
    assert unexplained(_window(exit="uncaught RuntimeError: Too many open files", exit_code=1)) is None
    assert unexplained(window, _alert("crashed", scenario="S39", key="crashed:rank1")) is None
    assert unexplained(window, _alert("hung", key="hung:0")) is None  # killed because it hung
    overcome = _alert("hung", key="hung:0")
    overcome.closed_ns = T0 - 60 * SECOND
    assert unexplained(window, overcome) is not None


@pytest.mark.parametrize(
    ("since_s", "opened_s", "closed_s", "told"),
    [
        pytest.param(-40, -30, -10, False, id="the server looked at it long before the death"),
        pytest.param(-5, -30, -10, True, id="the process had gone on since"),
        pytest.param(-20, 0.5, None, False, id="killed within a second of the alert"),
        pytest.param(-0.1, 30, None, True, id="died at work, so that the others hung"),
    ],
)
def test_a_process_killed_in_a_hang_is_told_as_that_hang(
    since_s: float, opened_s: float, closed_s: float | None, told: bool
) -> None:
    """Seconds count from the process's last sample. The last second before its death may be missing."""
    samples = table("processes", rank=0, worker=-1, pid=1000, t_ns=[AT], rss_bytes=3e9)
    builder = WindowBuilder("run-1")
    builder.add(
        envelope(
            31,
            processes=[process(0, 1, state="crashed", exit_code=-9)],
            spans=[span(0, AT + int(since_s * SECOND), step=118, alive=False)],
            tables={"processes": samples},
        )
    )
    hang = _alert("hung", key="hung:0", began_ns=AT + int(min(since_s, opened_s - 20) * SECOND))
    hang.opened_ns = AT + int(opened_s * SECOND)
    hang.closed_ns = None if closed_s is None else AT + int(closed_s * SECOND)
    assert (unexplained(builder.window(), hang) is not None) == told


def test_its_own_alert_goes_on_and_a_second_death_of_the_run_is_no_second_message() -> None:
    window = _window(exit_code=-9)
    mine = unexplained(window)
    assert mine is not None
    told = Alert("run-1.x", mine, "firing", T0, T0)
    assert unexplained(window, told) == mine
    assert unexplained(_window(pid=1001, exit_code=-9), told) is None


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"exit_code": -9}, "SIGKILL"),
        ({"exit_code": -61}, "signal 61"),
        ({"exit_code": -15}, "SIGTERM"),
        ({"exit_code": 3}, "exit code 3"),
        ({"exit": "uncaught ValueError: x", "exit_code": 1}, "uncaught ValueError: x"),
        ({}, None),
        ({"state": "live"}, None),
        ({"state": "finished", "exit_code": 0}, None),
    ],
)
def test_how_it_ended_stands_with_the_rank(facts: dict[str, Any], said: str | None) -> None:
    assert ending(process(0, 1, **({"state": "crashed"} | facts))) == said
