"""Who gets which message when: through the real Apprise to local webhooks, with the test's own clock."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from loaderwatch.core.errors import ConfigError
from loaderwatch.detect.finding import Finding, Texts
from loaderwatch.server.alerts import notify as module
from loaderwatch.server.alerts.alert_book import Alert
from loaderwatch.server.alerts.channel import Message
from loaderwatch.server.alerts.messages import reminder
from loaderwatch.server.alerts.notify import Notifier
from loaderwatch.server.alerts.recipients import QuietHours, Recipient, Recipients, Terms
from loaderwatch.texts import say
from tests.fakes.webhook import Webhook
from tests.waiting import wait_until

T0 = 1_790_000_000 * 10**9
LINK = "http://x/#/runs/r"


class Clock:
    """The local time, which a test sets; the monotonic one goes with it."""

    def __init__(self, text: str = "2026-03-02 12:00") -> None:
        self.now = datetime.fromisoformat(text)
        self._began = self.now

    def wait(self, **time: float) -> None:
        self.now += timedelta(**time)

    def monotonic(self) -> float:
        return (self.now - self._began).total_seconds()


@contextmanager
def started(*to: Recipient | str, clock: Clock | None = None, **options: Any) -> Iterator[Notifier]:
    clock = clock or Clock()
    recipients = [one if isinstance(one, Recipient) else Recipient(one) for one in to]
    notifier = Notifier(
        recipients, first_backoff_s=0.05, now=lambda: clock.now, monotonic=clock.monotonic, **options
    )
    notifier.start()
    try:
        yield notifier
    finally:
        notifier.close()


def alert(severity: str = "critical", number: int = 0, state: Any = "firing") -> Alert:
    finding = Finding(
        key=f"k{number}", code="hung", scenario="S36", severity=severity,  # type: ignore[arg-type]
        confidence=0.9, began_ns=T0,
        texts=Texts(title=f"Rank {number} hangs.", cause="A lock.", advice="Give it back."),
    )  # fmt: skip
    return Alert(f"run-1.{number}", finding, state, T0, T0, told=severity)


def said(message: Message) -> Callable[[str], Message]:
    """The message in every language: in English in all of them."""
    return lambda language: message


def tell(notifier: Notifier, title: str, severity: str = "critical", run: str = "run-1", **more: Any) -> None:
    kind = "resolved" if more.get("over") else severity
    notifier.tell(
        run, said(Message(kind, title, f"Cause.\n\n{LINK}")),  # type: ignore[arg-type]
        alert(severity), **more,
    )  # fmt: skip


def titles(hook: Webhook, count: int) -> list[str]:
    return [message["title"] for message in hook.wait_for(count)]


def leave(folder: Path, run_id: str, *addresses: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / f"{run_id}.json"
    path.write_text(json.dumps(addresses))
    path.chmod(0o600)


def test_every_address_is_told_once_and_a_dead_one_delays_nobody() -> None:
    with socket.socket() as taken:  # bound, not listening: refuses
        taken.bind(("127.0.0.1", 0))
        dead = f"json://127.0.0.1:{taken.getsockname()[1]}/"
        with (
            Webhook() as first,
            Webhook() as second,
            started(dead, first.url, second.url, first.url) as notifier,
        ):
            tell(notifier, "a")
            assert titles(first, 1) == titles(second, 1) == ["a"]
            wait_until("it is given up", lambda: notifier.counts().failed == 1)
            assert notifier.counts().sent == 2


def test_an_error_names_where_the_address_stands_and_shows_no_secrets() -> None:
    with pytest.raises(ConfigError, match=r"config\.toml") as caught:
        Notifier([Recipient("nosuchservice://user:password@host/token")], source="config.toml")
    assert "password" not in str(caught.value)
    assert "token" not in str(caught.value)


def test_without_addresses_nothing_happens(tmp_path: Path) -> None:
    with started(run_addresses=tmp_path) as notifier:
        assert not notifier.learn("run-1")
        tell(notifier, "a")
        notifier.remind("run-1", [alert()], lambda _: said(Message("critical", "b", "")))
        notifier.summarize("run-1", said(Message("info", "c", "")))
        notifier.tick()
        assert (notifier.counts().sent, notifier.holds) == (0, False)


def test_who_wants_only_what_is_critical() -> None:
    terms = Terms(severity="critical")
    with Webhook() as grave, Webhook() as all_, started(Recipient(grave.url, terms), all_.url) as notifier:
        tell(notifier, "slow", "warning")
        tell(notifier, "not slow", "warning", over=True)
        tell(notifier, "hung")
        tell(notifier, "not hung", over=True)
        assert titles(all_, 4) == ["slow", "not slow", "hung", "not hung"]
        assert titles(grave, 2) == ["hung", "not hung"]


def test_quiet_hours_hold_warnings_back_and_end_with_one_message() -> None:
    clock = Clock("2026-03-02 23:41")
    terms = Terms(quiet_hours=QuietHours(time(22), time(7)))
    with Webhook() as hook, started(Recipient(hook.url, terms), clock=clock) as notifier:
        tell(notifier, "Slow", "warning")
        tell(notifier, "Hung")
        clock.wait(minutes=30)
        tell(notifier, "Not slow", "warning", over=True)
        assert titles(hook, 1) == ["Hung"]
        clock.wait(hours=6.7)
        notifier.tick()
        assert notifier.holds
        assert notifier.counts().waiting == 2
        clock.wait(minutes=10)
        notifier.tick()
        held = hook.wait_for(2)[1]
        assert held["title"] == "During quiet hours (22:00–07:00): 2 messages"
        assert held["message"] == f"23:41 Slow\n{LINK}\n\n00:11 Not slow\n{LINK}"
        assert held["type"] == "warning"
        notifier.tick()
        tell(notifier, "Slow again", "warning")
        assert titles(hook, 3)[2] == "Slow again"
        assert len(hook.messages) == 3


def test_quiet_hours_hold_back_everything_if_asked() -> None:
    clock = Clock("2026-03-02 23:41")
    terms = Terms(quiet_hours=QuietHours(time(22), time(7)), quiet_critical=True)
    with Webhook() as hook, started(Recipient(hook.url, terms), clock=clock) as notifier:
        tell(notifier, "Hung")
        assert notifier.holds
        notifier.close()
        (message,) = hook.wait_for(1)
        assert message["title"] == "During quiet hours (22:00–07:00): 1 message", (
            "a server that ends cannot wait"
        )
        assert message["type"] == "failure"


def test_a_night_of_alerts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HELD", 3)
    clock = Clock("2026-03-02 23:41")
    terms = Terms(quiet_hours=QuietHours(time(22), time(7)))
    with Webhook() as hook, started(Recipient(hook.url, terms), clock=clock) as notifier:
        for number in range(5):
            tell(notifier, f"Slow {number}", "warning")
        clock.wait(hours=10)
        notifier.tick()
        (message,) = hook.wait_for(1)
    assert message["title"] == "During quiet hours (22:00–07:00): 5 messages"
    assert message["message"].startswith("2 earlier messages are on the page.\n\n23:41 Slow 2\n")


def test_reminders_come_while_it_goes_on_to_those_who_want_them() -> None:
    clock = Clock()
    terms = Terms(remind_every_s=7200.0)
    grave = Terms(remind_every_s=7200.0, severity="critical")

    def still(one: Alert) -> Callable[[str], Message]:
        return said(reminder(one, "run-1", "resnet", "http://x", T0 + int(clock.monotonic() * 1e9)))

    with (
        Webhook() as hook,
        Webhook() as only_grave,
        Webhook() as once,
        started(
            Recipient(hook.url, terms), Recipient(only_grave.url, grave), once.url, clock=clock
        ) as notifier,
    ):
        tell(notifier, "Hung")
        slow = alert("warning", 1)
        for _ in range(13):  # the slow one goes on for half an hour already when the server starts
            notifier.remind("run-1", [alert(), slow], still)
            clock.wait(minutes=10)
        assert titles(hook, 3) == [
            "Hung",
            "Still open after 2 h 0 min: Rank 0 hangs. (resnet)",
            "Still open after 2 h 0 min: Rank 1 hangs. (resnet)",
        ]
        assert hook.messages[1]["message"] == (
            "Nobody has acknowledged this alert on the page.\n\nWhat to do: Give it back.\n\n"
            "http://x/#/runs/run-1"
        )
        assert titles(only_grave, 2) == ["Hung", "Still open after 2 h 0 min: Rank 0 hangs. (resnet)"]
        tell(notifier, "Not hung", over=True)
        titles(once, 2)
        clock.wait(hours=9)
        notifier.remind("run-1", [], still)
        assert titles(once, 2) == ["Hung", "Not hung"]
        assert titles(hook, 4)[3] == "Not hung"


def test_the_summary_goes_to_those_who_asked() -> None:
    with (
        Webhook() as hook,
        Webhook() as other,
        started(Recipient(hook.url, Terms(summary=True)), other.url) as notifier,
    ):
        notifier.summarize("run-1", said(Message("info", "Finished", LINK)))
        assert titles(hook, 1) == ["Finished"]
        assert hook.messages[0]["type"] == "info"
        tell(notifier, "a")
        assert titles(other, 1) == ["a"]


def test_addresses_of_a_run_are_told_of_it_alone(tmp_path: Path) -> None:
    folder = tmp_path / "notify"
    with Webhook() as mine, Webhook() as server, started(server.url, run_addresses=folder) as notifier:
        leave(folder, "run-1", mine.url, server.url)
        assert notifier.learn("run-1")
        assert not notifier.learn("run-2")
        tell(notifier, "two", run="run-2")
        tell(notifier, "one")
        assert titles(server, 2) == ["two", "one"], "once, though the run names it, too"
        assert titles(mine, 1) == ["one"]
        notifier.forget("run-1")
        tell(notifier, "over")
        assert titles(server, 3)[2] == "over"
        assert len(mine.messages) == 1


def test_the_terms_of_a_runs_address_are_those_of_the_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "notify"
    with Webhook() as named, Webhook() as other:
        general = Recipients((Recipient(named.url, Terms(severity="critical")),), Terms(summary=True))
        with started(general=general, run_addresses=folder) as notifier:
            leave(folder, "run-1", named.url, other.url)
            notifier.learn("run-1")
            tell(notifier, "slow", "warning")
            notifier.summarize("run-1", said(Message("info", "Finished", LINK)))
            assert titles(other, 2) == ["slow", "Finished"]
            tell(notifier, "hung")
            assert titles(named, 1) == ["hung"]


def test_what_is_wrong_with_a_runs_address_is_said_once_to_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "notify"
    leave(folder, "run-1", "nosuchservice://secret/x")
    with started(run_addresses=folder) as notifier:
        assert notifier.learn("run-1")
        found = wait_until("it is opened", lambda: notifier.troubles("run-1"))
        assert len(found) == 1
        said = say(found[0])
        assert said.startswith("notify 'nosuchservice://…' is not an address Apprise knows; see http")
        assert said.endswith(". Nobody is told of this run there")
        assert notifier.troubles("run-1") == []
        leave(folder, "run-2", "nosuchservice://secret/x")
        notifier.learn("run-2")
        assert len(notifier.troubles("run-2")) == 1


def test_a_changed_configuration_counts_at_once(tmp_path: Path) -> None:
    with Webhook() as old, Webhook() as new, started(old.url) as notifier:
        notifier.replace([Recipient(new.url, Terms(severity="critical"))], Recipients(), "config.toml")
        tell(notifier, "slow", "warning")
        tell(notifier, "hung")
        assert titles(new, 1) == ["hung"]
        notifier.replace([Recipient(new.url), Recipient(old.url)], Recipients(), "config.toml")
        tell(notifier, "slow", "warning")
        assert titles(new, 2) == ["hung", "slow"]
        assert titles(old, 1) == ["slow"]


def test_so_many_addresses_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MOST_ADDRESSES", 3)
    leave(tmp_path, "run-1", *(f"json://127.0.0.1:9/{number}" for number in range(9)))
    with Webhook() as hook, started(hook.url, run_addresses=tmp_path) as notifier:
        for _ in range(3):
            notifier.learn("run-1")
        assert len(notifier._addressees) == 3
    assert [record.getMessage() for record in caplog.records] == [
        "this server tells 3 addresses, and no more are added"
    ]


def test_each_address_is_told_in_its_language() -> None:
    """Also by what quiet hours held back: ``[notify] language``."""
    clock = Clock("2026-03-02 23:41")
    night = QuietHours(time(22), time(7))
    with (
        Webhook() as english,
        Webhook() as chinese,
        started(
            english.url, Recipient(chinese.url, Terms(quiet_hours=night, language="zh")), clock=clock
        ) as notifier,
    ):
        messages = partial(reminder, alert("warning"), "run-1", "resnet", "http://x", T0 + 60 * 10**9)
        notifier.tell("run-1", messages, alert("warning"))
        assert titles(english, 1) == ["Still open after 60 s: Rank 0 hangs. (resnet)"]
        assert "What to do" in english.messages[0]["message"]
        clock.wait(hours=10)
        notifier.tick()
        assert titles(chinese, 1) == ["免打扰时段（22:00–07:00）：1 条通知"]
        assert "持续 60 秒仍未恢复：Rank 0 hangs.（resnet）" in chinese.messages[0]["message"]
