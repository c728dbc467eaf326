"""The language of a request."""

from __future__ import annotations

import pytest

from loaderwatch.server.encoding import accepted


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("en-US,en;q=0.9,zh;q=0.8", "en"),
        ("fr, de;q=0.9", "en"),
        ("fr, zh-TW;q=0.5", "zh"),
        ("en;q=0.2, zh;q=0.3", "zh"),
        ("en, zh", "en"),
        ("*", "en"),
        ("zh;q=0", "en"),
        ("zh;q=nan", "en"),
        ("zh;q=high, en", "en"),
        (";;;,,,zh", "zh"),
        ("x" * 100_000 + ",zh", "en"),
        ("en;q=0.9, zh-CN; q=0.1", "en"),
        ("zh; q=0.9", "zh"),
        ("EN;Q=0.2,ZH;Q=0.5", "zh"),
    ],
)
def test_the_language_that_a_browser_prefers(header: str, language: str) -> None:
    assert accepted(header) == language
