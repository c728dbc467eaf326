"""Lines about connections that anyone can cause."""

from __future__ import annotations

import logging

from loaderwatch.server.access.connection import BURST, LIMITED, LogLimit, limit_log_lines


def line(
    text: str = "%s is too slow: hung up", *args: object, level: int = logging.INFO
) -> logging.LogRecord:
    return logging.LogRecord("loaderwatch.server.access.connection", level, __file__, 1, text, args, None)


def test_a_flood_is_a_few_lines_and_a_count() -> None:
    now = [1000.0]
    limit = LogLimit(lambda: now[0])
    passed = [limit.filter(line("%s is too slow: hung up", f"10.0.0.{n}")) for n in range(500)]
    assert passed == [True] * BURST + [False] * (500 - BURST)
    now[0] += 60
    told = line("%s is too slow: hung up", "10.0.0.9")
    assert limit.filter(told)
    assert told.getMessage() == "10.0.0.9 is too slow: hung up (and 490 more such lines since the last one)"
    assert not limit.filter(line("%s is too slow: hung up", "10.0.0.9"))


def test_one_kind_does_not_hide_another_and_faults_of_ours_are_limited_by_their_type() -> None:
    limit = LogLimit(lambda: 0.0)
    for _ in range(100):
        limit.filter(line())
    assert limit.filter(line("Invalid HTTP request received."))
    passed = []
    for error in [OverflowError("x")] * 100 + [KeyError("x")]:
        fault = line("%s failed", "/", level=logging.ERROR)
        fault.exc_info = (type(error), error, None)
        passed.append(limit.filter(fault))
    assert passed == [True] * BURST + [False] * (100 - BURST) + [True]


def test_it_stands_before_the_loggers_of_connections() -> None:
    before = {name: list(logging.getLogger(name).filters) for name in LIMITED}
    try:
        limit_log_lines()
        for name in LIMITED:
            assert any(isinstance(one, LogLimit) for one in logging.getLogger(name).filters)
    finally:
        for name, filters in before.items():
            logging.getLogger(name).filters[:] = filters
