"""By what somebody stopped a process."""

from __future__ import annotations

import pytest

from loaderwatch.core.ending import signal_name, stopped_by


@pytest.mark.parametrize(
    ("last_words", "exit_code", "by"),
    [
        (None, -15, "SIGTERM"),
        (None, -2, "SIGINT"),
        (None, -3, "SIGQUIT"),
        ("", 143, "SIGTERM"),
        ("exit code 143", 143, "SIGTERM"),
        ("uncaught KeyboardInterrupt", -2, "Ctrl-C (KeyboardInterrupt)"),
        ("uncaught ValueError: no", -15, None),  # stopped while it was ending with an error
        ("exit code 3", 3, None),
        ("exit code None of these", 1, None),
        (None, -9, None),
        (None, 1, None),
        (None, None, None),
    ],
)
def test_who_stopped_it(last_words: str | None, exit_code: int | None, by: str | None) -> None:
    assert stopped_by(last_words, exit_code) == by


def test_a_signal_has_a_name_or_its_number() -> None:
    assert [signal_name(number) for number in (9, 61)] == ["SIGKILL", "signal 61"]
