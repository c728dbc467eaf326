"""The ``notify`` key of a configuration."""

from __future__ import annotations

from datetime import time
from typing import Any

import pytest

from loaderwatch.core.errors import ConfigError
from loaderwatch.server.alerts.recipients import QuietHours, Recipient, Recipients, Terms, parse_notify


@pytest.mark.parametrize(
    "value",
    [
        "json://a, json://b",
        ["json://a", "json://b"],
        {"to": "json://a json://b"},
        {"to": ["json://a", {"address": "json://b"}]},
    ],
)
def test_addresses_alone(value: Any) -> None:
    assert parse_notify(value, "f") == Recipients((Recipient("json://a"), Recipient("json://b")))


def test_terms_hold_for_all_that_do_not_say_otherwise() -> None:
    found = parse_notify(
        {
            "to": [
                "json://a",
                {
                    "address": "json://b",
                    "severity": "critical",
                    "quiet_hours": "",
                    "remind_every": False,
                    "language": "zh",
                },
            ],
            "remind_every": "2h",
            "quiet_hours": "22:00-07:30",
            "quiet_critical": True,
            "summary": True,
        },
        "f",
    )
    general = Terms(
        remind_every_s=7200.0,
        quiet_hours=QuietHours(time(22), time(7, 30)),
        quiet_critical=True,
        summary=True,
    )
    assert found.named == (
        Recipient("json://a", general),
        Recipient("json://b", Terms(severity="critical", quiet_critical=True, summary=True, language="zh")),
    )
    assert found.of(("json://c", "json://b")) == (Recipient("json://c", general), found.named[1])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"severity": "info"}, "notify.severity is 'info'; use 'warning' (all alerts) or 'critical'"),
        (
            {"remind_every": "soon"},
            "notify.remind_every is 'soon'; use a time such as '2h' or '30m', a minute",
        ),
        ({"remind_every": "30s"}, "notify.remind_every is '30s'"),
        ({"remind_every": 7200}, "notify.remind_every is 7200"),
        ({"quiet_hours": "22-7"}, "notify.quiet_hours is '22-7'; use two times of the day, such as"),
        ({"quiet_hours": "25:00-07:00"}, "notify.quiet_hours is '25:00-07:00'"),
        ({"quiet_hours": "07:00-07:00"}, "notify.quiet_hours is '07:00-07:00'"),
        ({"language": "fr"}, "notify.language is 'fr'; use 'en' or 'zh'"),
        ({"quiet_hours": 22}, "notify.quiet_hours is 22"),
        ({"summary": "yes"}, "notify.summary is 'yes'; use true or false"),
        (
            {"to": ["json://a", {"to": "json://b"}]},
            "notify.to[2] has the unknown key 'to'; use address, severity,",
        ),
        ({"to": [{"severity": "critical"}]}, "notify.to[1].address is missing; use an Apprise address"),
        ({"to": [{"address": "json://b", "summary": 1}]}, "notify.to[1].summary is 1; use true or false"),
        ({"to": ["json://a", "S3CRET"]}, "notify.to[2] has no scheme; use an Apprise address"),
        ({"to": ""}, "notify.to is empty; use an Apprise address"),
    ],
)
def test_what_cannot_be_used_is_named(value: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_notify(value, "config.toml")
    assert f"config.toml: {words}" in str(caught.value)
    assert "S3CRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "quiet", "loud"),
    [
        ("22:00-07:00", [time(22), time(23, 59), time(0), time(6, 59)], [time(7), time(21, 59), time(12)]),
        ("12:30-14:00", [time(12, 30), time(13, 59)], [time(14), time(12, 29), time(0)]),
        ("20:00 - 24:00", [time(20), time(23, 59)], [time(0), time(19, 59)]),
    ],
)
def test_quiet_hours(text: str, quiet: list[time], loud: list[time]) -> None:
    hours = parse_notify({"quiet_hours": text}, "f").terms.quiet_hours
    assert hours is not None
    assert all(hours.hold(now) for now in quiet)
    assert not any(hours.hold(now) for now in loud)
