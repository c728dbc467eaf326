"""Messages through the real Apprise to a real webhook on loopback."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from loaderwatch.core.errors import ConfigError
from loaderwatch.server.alerts.notify import Message, Notifier
from tests.fakes.webhook import Webhook
from tests.waiting import PATIENCE_S


@contextmanager
def started(*urls: str) -> Iterator[Notifier]:
    notifier = Notifier(urls, first_backoff_s=0.05)
    notifier.start()
    try:
        yield notifier
    finally:
        notifier.close()


def test_title_and_body_arrive_once_at_every_address() -> None:
    with Webhook() as first, Webhook() as second, started(first.url, second.url) as notifier:
        notifier.post(Message("critical", "Rank 0 hangs", "Cause: a <b>lock</b>\n\nhttp://x/#/runs/r"))
        for hook in (first, second):
            (message,) = hook.wait_for(1)
            assert message["title"] == "Rank 0 hangs"
            assert message["message"] == "Cause: a <b>lock</b>\n\nhttp://x/#/runs/r"
            assert message["type"] == "failure"
        notifier.post(Message("resolved", "Resolved", "It lasted 3 s."))
        assert first.wait_for(2)[1]["type"] == "success"
        second.wait_for(2)


def test_what_a_job_is_called_makes_no_second_line_and_no_escapes() -> None:
    """A second line of a title would be a header of an e-mail, or look like a message of ours."""
    with Webhook() as hook, started(hook.url) as notifier:
        notifier.post(
            Message(
                "critical",
                "Rank 0 hangs (a\r\nBcc: everyone@example.org\x1b]0;x\x07\u2028\u202eb)",
                "Cause: \x1b[2J\u202e<b>x\x00</b>\n\nhttp://x/",
            )
        )
        (message,) = hook.wait_for(1)
    assert message["title"] == "Rank 0 hangs (a Bcc: everyone@example.org]0;x b)"
    assert message["message"] == "Cause: [2J<b>x</b>\n\nhttp://x/"


def test_a_refused_message_is_tried_again_and_sends_nothing_twice_elsewhere() -> None:
    with Webhook(fail_first=2) as shaky, Webhook() as steady, started(shaky.url, steady.url) as notifier:
        notifier.post(Message("warning", "t", "b"))
        shaky.wait_for(1)
        assert shaky.refused == 2
        assert len(steady.wait_for(1)) == 1


def test_a_dead_address_is_given_up_counted_and_does_not_delay_others() -> None:
    with socket.socket() as taken:  # bound, not listening: refuses
        taken.bind(("127.0.0.1", 0))
        dead = f"json://127.0.0.1:{taken.getsockname()[1]}/"
        with Webhook() as alive, started(dead, alive.url) as notifier:
            notifier.post(Message("warning", "t", "b"))
            alive.wait_for(1)
            deadline = time.monotonic() + PATIENCE_S
            while notifier.counts().failed < 1:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert notifier.counts().sent == 1


@pytest.mark.parametrize("url", ["nonsense", "", "nosuchservice://x", "http://127.0.0.1/"])
def test_an_address_apprise_does_not_know_is_named_once(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigError, match="--notify"):
        Notifier([url])
    assert caplog.records == []
    logging.getLogger("apprise").error("as before")
    assert len(caplog.records) == 1


def test_an_error_shows_no_secrets() -> None:
    with pytest.raises(ConfigError) as caught:
        Notifier(["nosuchservice://user:password@host/token"])
    assert "password" not in str(caught.value)
    assert "token" not in str(caught.value)


def test_without_addresses_nothing_happens() -> None:
    with started() as notifier:
        notifier.post(Message("warning", "t", "b"))
        assert notifier.counts().sent == 0
