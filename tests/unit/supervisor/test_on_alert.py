"""``--on-alert``: what a command receives, and how it is bounded."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from loaderwatch.core.client import Client
from loaderwatch.supervisor.on_alert import MOST_COMMANDS, AlertCommand, AlertTeller, as_json, run_command
from loaderwatch.texts import say
from tests.unit.supervisor.test_restart import HANG
from tests.waiting import wait_until


def told(teller: AlertTeller, **facts: Any) -> list[tuple[str, str]]:
    events = teller.events([msgspec.structs.replace(HANG, **facts)])
    return [(event, finding.severity) for event, finding in events]


def test_an_alert_is_told_once_and_its_end_once() -> None:
    teller = AlertTeller(900.0)
    assert told(teller) == [("fires", "critical")]
    assert told(teller, title="It hangs for longer.") == []
    assert told(teller, state="resolved") == [("resolved", "critical")]
    assert told(teller, state="resolved") == []


def test_a_warning_that_turns_critical_is_told_again() -> None:
    teller = AlertTeller(900.0)
    assert told(teller, severity="warning") == [("fires", "warning")]
    assert told(teller, severity="critical") == [("fires", "critical")]
    assert told(teller, severity="warning") == []


def test_remarks_old_alerts_and_those_of_which_people_know_are_not_told() -> None:
    assert told(AlertTeller(900.0), severity="info") == []
    assert told(AlertTeller(1000.1)) == []
    assert told(AlertTeller(900.0), state="acknowledged") == []
    assert told(AlertTeller(900.0), state="silenced") == []
    assert told(AlertTeller(900.0), state="resolved") == []


def test_nobody_is_told_that_a_crash_is_resolved() -> None:
    teller = AlertTeller(900.0)
    assert told(teller) == [("fires", "critical")]
    assert told(teller, code="crashed") == [("fires", "critical")]
    assert told(teller, code="crashed", state="resolved") == []


def test_a_crash_that_the_runs_end_has_resolved_is_told() -> None:
    teller = AlertTeller(900.0)
    assert told(teller, code="crashed", state="resolved") == [("fires", "critical")]
    assert told(teller, code="crashed", state="resolved") == []
    assert told(AlertTeller(1000.1), code="crashed", state="resolved") == []


def test_an_alert_of_an_attempt_that_is_over_is_resolved() -> None:
    teller = AlertTeller(900.0)
    assert told(teller) == [("fires", "critical")]
    ((event, finding),) = teller.events([])
    assert (event, finding.id, finding.state) == ("resolved", HANG.id, "resolved")
    assert teller.events([]) == []


def test_the_json_is_the_apis_with_event_and_run(tmp_path: Path) -> None:
    text = as_json("fires", "http://box:8790", "mine", HANG)
    failure = run_command(f"cat > {tmp_path / 'told'}", text, os.environ)
    assert failure is None
    alert = json.loads((tmp_path / "told").read_text())
    assert (alert["event"], alert["run"], alert["page"]) == ("fires", "mine", "http://box:8790/#/runs/mine")
    assert {name: alert[name] for name in msgspec.to_builtins(HANG)} == msgspec.to_builtins(HANG)


@pytest.mark.parametrize(
    ("command", "failure"),
    [
        ("true", None),
        ("exit 3", "failed with exit code 3"),
        ("echo first >&2; echo no such host >&2; exit 6", "failed with exit code 6: no such host"),
        ("no-such-program-here", "failed with exit code 127: /bin/sh: 1: no-such-program-here: not found"),
        ("kill -9 $$", "was killed by signal 9"),
        ("head -c 1000000 /dev/zero", None),  # its output is not shown, and fills nothing
        ("sleep 3600 & exit 0", None),  # what it leaves in the background is not waited for
    ],
)
def test_a_commands_failure_is_told_in_words(command: str, failure: str | None) -> None:
    found = run_command(command, b"{}", os.environ)
    assert (found is None) == (failure is None)
    if failure is not None and "no-such-program" not in failure:
        assert found is not None
        assert say(found) == f"--on-alert {command!r} {failure}"


def test_a_command_that_does_not_end_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = f"trap '' TERM; sleep 3601 & echo $$ $! > {pids}; wait"
    found = run_command(command, b"{}", os.environ, timeout_s=2.0)
    assert found is not None
    assert say(found) == f"--on-alert {command!r} was killed after 2 s"
    for pid in map(int, pids.read_text().split()):
        wait_until("it is gone", lambda pid=pid: not psutil.pid_exists(pid))  # type: ignore[misc]


def test_commands_run_one_at_a_time_and_a_bounded_number(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    command = AlertCommand(f"echo begin >> {log}; sleep 0.002; echo end >> {log}", os.environ)
    for _ in range(MOST_COMMANDS + 20):
        command.post("fires", Client("http://box", None), "mine", HANG)
    wait_until("all have run", lambda: not command.busy)
    assert log.read_text().split() == ["begin", "end"] * MOST_COMMANDS
    assert capfd.readouterr().err.splitlines() == [
        "loaderwatch: --on-alert has run 100 times for this job and is not run again"
    ]


def test_an_abandoned_command_is_killed(capfd: pytest.CaptureFixture[str]) -> None:
    command = AlertCommand("sleep 3600", os.environ)
    command.post("fires", Client("http://box", None), "mine", HANG)
    began = time.monotonic()
    command.abandon()
    assert not command.busy
    wait_until("it is told", lambda: "was killed" in capfd.readouterr().err)
    assert time.monotonic() - began < 60
