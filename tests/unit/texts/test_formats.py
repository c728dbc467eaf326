"""Numbers, times, sizes and lists as people read them, in each language."""

from __future__ import annotations

import math

import pytest

from loaderwatch.texts import formats


@pytest.mark.parametrize(
    ("seconds", "english", "chinese"),
    [
        (0.000012, "12 µs", "12 微秒"),
        (0.000096, "0.1 ms", "0.1 毫秒"),
        (0.0004, "0.4 ms", "0.4 毫秒"),
        (0.118, "118 ms", "118 毫秒"),
        (2.44, "2.4 s", "2.4 秒"),
        (47.2, "47 s", "47 秒"),
        (200, "3 min 20 s", "3 分 20 秒"),
        (7500, "2 h 5 min", "2 小时 5 分"),
        (math.nan, "an unknown time", "未知时间"),
    ],
)
def test_duration(seconds: float, english: str, chinese: str) -> None:
    assert formats.duration(seconds) == english
    assert formats.duration(seconds, "zh") == chinese


@pytest.mark.parametrize(
    ("seconds", "english", "chinese"),
    [
        (0.2, "0 s", "0 秒"),
        (8.4, "8 s", "8 秒"),
        (119.4, "119 s", "119 秒"),
        (119.6, "2 min 0 s", "2 分 0 秒"),
        (math.inf, "an unknown time", "未知时间"),
    ],
)
def test_whole_duration(seconds: float, english: str, chinese: str) -> None:
    assert formats.whole_duration(seconds) == english
    assert formats.whole_duration(seconds, "zh") == chinese


def test_shares_and_what_they_were_measured_over() -> None:
    assert [formats.percent(ratio) for ratio in (0.62, 0.013, 0.0)] == ["62 %", "1.3 %", "0 %"]
    assert formats.percent(0.62, "zh") == "62%"
    assert [formats.roughly(seconds) for seconds in (0.2, 5.6, 14.4, 61)] == ["1 s", "6 s", "15 s", "60 s"]
    assert [formats.signed(ratio) for ratio in (0.12, -0.5)] == ["+12 %", "-50 %"]


def test_rates_and_sizes() -> None:
    assert [formats.rate(number) for number in (0.42, 9.06, 24.4, 1240)] == ["0.42", "9.1", "24", "1,240"]
    assert [formats.speed(number) for number in (0.42, 24.0)] == ["0.42", "24.0"]
    assert [formats.rate_of(each_s) for each_s in (0.03, 0.0)] == ["33", "any number"]
    assert [formats.size(number) for number in (640, 12e3, 3.1e6, 1.8e9)] == [
        "640 B", "12 kB", "3.1 MB", "1.8 GB",
    ]  # fmt: skip
    assert formats.size(math.inf, "zh") == "未知字节数"
    assert [formats.cpus(number) for number in (1, 0.4, 7.5, math.nan)] == [
        "1 CPU", "0.40 CPUs", "7.5 CPUs", "an unknown number of CPUs",
    ]  # fmt: skip


def test_lists() -> None:
    assert formats.listing(["a", "b", "c"]) == "a, b and c"
    assert formats.listing([str(n) for n in range(9)]) == "0, 1, 2 and 6 more"
    assert formats.listing(["a"]) == "a"
    assert formats.listing(["a", "b", "c"], "zh") == "a、b 和 c"
    assert formats.listing(["降频", "过热"], "zh") == "降频和过热"
