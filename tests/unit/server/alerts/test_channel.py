"""A message through the real Apprise to a real webhook on loopback."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from loaderwatch.core.errors import ConfigError
from loaderwatch.server.alerts.channel import Channel, Message, Target, label
from loaderwatch.texts import say
from tests.fakes.webhook import Webhook
from tests.waiting import PATIENCE_S, wait_until


@contextmanager
def started(address: str, **options: Any) -> Iterator[Channel]:
    channel = Channel(address, first_backoff_s=0.05, **options)
    channel.start()
    try:
        yield channel
    finally:
        channel.stop()
        channel.join(PATIENCE_S)


def test_title_and_body_arrive_once() -> None:
    with Webhook() as hook, started(hook.url, target=Target(hook.url)) as channel:
        channel.post(Message("critical", "Rank 0 hangs", "Cause: a <b>lock</b>\n\nhttp://x/#/runs/r"))
        (message,) = hook.wait_for(1)
        assert message["title"] == "Rank 0 hangs"
        assert message["message"] == "Cause: a <b>lock</b>\n\nhttp://x/#/runs/r"
        assert message["type"] == "failure"
        channel.post(Message("resolved", "Resolved", "It lasted 3 s."))
        assert hook.wait_for(2)[1]["type"] == "success"


def test_what_a_job_is_called_makes_no_second_line_and_no_escapes() -> None:
    """A second line of a title would be a header of an e-mail, or look like a message of ours."""
    with Webhook() as hook, started(hook.url) as channel:
        channel.post(
            Message(
                "critical",
                "Rank 0 hangs (a\r\nBcc: everyone@example.org\x1b]0;x\x07\u2028\u202eb)",
                "Cause: \x1b[2J\u202e<b>x\x00</b>\n\nhttp://x/",
            )
        )
        (message,) = hook.wait_for(1)
    assert message["title"] == "Rank 0 hangs (a Bcc: everyone@example.org]0;x b)"
    assert message["message"] == "Cause: [2J<b>x</b>\n\nhttp://x/"


def test_a_refused_message_is_tried_again() -> None:
    with Webhook(fail_first=2) as shaky, started(shaky.url) as channel:
        channel.post(Message("warning", "t", "b"))
        assert len(shaky.wait_for(1)) == 1
        assert shaky.refused == 2


def test_why_it_fails_is_logged_without_what_the_address_holds(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:  # bound, not listening: refuses
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with started(f"json://somebody:S3CRET@127.0.0.1:{port}/P4TH?+X-Key=H3ADER") as channel:
            channel.post(Message("warning", "t", "b"))
            wait_until("it is given up", lambda: channel.failed == 1)
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == (
        "notify json://…: attempt 1 of 4 failed: A Connection error occurred sending JSON notification to …"
    )
    assert said[-1] == "notify json://…: gave up on 't'"
    assert not [word for word in ("S3CRET", "P4TH", "H3ADER", "somebody", str(port)) if word in caplog.text]


def test_an_answer_that_refuses_is_said() -> None:
    with Webhook(fail_first=1) as hook:
        why = Target(hook.url).send(Message("info", "t", "b"))
        assert why is not None
        assert "error=503" in say(why)
        assert Target(hook.url).send(Message("info", "t", "b")) is None


@pytest.mark.parametrize("url", ["nonsense", "", "nosuchservice://x", "http://127.0.0.1/"])
def test_an_address_apprise_does_not_know_is_named_once(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigError, match="LOADERWATCH_NOTIFY"):
        Target(url, "LOADERWATCH_NOTIFY")
    assert caplog.records == []
    logging.getLogger("apprise").error("as before")
    assert len(caplog.records) == 1


def test_one_that_is_opened_by_its_thread_says_so_later() -> None:
    with started("nosuchservice://user:password@host/token", source="notify") as channel:
        channel.post(Message("warning", "t", "b"))
        wait_until("it is refused", lambda: channel.refused is not None and channel.failed == 1)
    assert channel.refused is not None
    assert channel.refused.startswith("notify 'nosuchservice://…' is not an address Apprise knows; see http")


def test_a_label_shows_no_secrets() -> None:
    assert label("slack://T0K3N/x") == "slack://…"
    assert label("T0K3N") == "…"
