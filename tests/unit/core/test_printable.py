"""Names come from training jobs; terminals, logs and messages get nothing but letters of them."""

from __future__ import annotations

import io
import logging

from loaderwatch.core.printable import (
    LogFormatter,
    Printable,
    columns,
    fitted,
    one_line,
    printable,
    without_tokens,
)

HOSTILE = "a\x1b]0;title\x07b\r\nc\x00\u202egpj\u2028d\x9b2J\te"


def test_nothing_moves_a_cursor_or_turns_a_text() -> None:
    assert printable(HOSTILE) == "a]0;titleb\ncgpjd2J\te"
    assert one_line(HOSTILE) == "a]0;titleb cgpj d2J e"


def test_a_text_fits_into_columns_of_a_terminal() -> None:
    assert [columns(text) for text in ("abc", "数据", "e\u0301", "→–µ")] == [3, 4, 1, 3]
    assert fitted("abc", 3) == "abc"
    assert fitted("abcd", 3) == "ab…"
    assert fitted("数据集", 5) == "数据…"
    assert fitted("数据集", 4) == "数…"
    assert fitted(HOSTILE, 9) == "a]0;titl…"


def test_a_stream_lets_nothing_else_through() -> None:
    below = io.StringIO()
    stream = Printable(below)
    assert stream.write(HOSTILE) == len(HOSTILE)
    print("\x1b[1mbold", file=stream, flush=True)
    assert below.getvalue() == printable(HOSTILE) + "[1mbold\n"
    assert not stream.isatty()
    del stream
    assert not below.closed


def test_a_token_in_an_address_stays_out() -> None:
    text = 'open http://h:1/?token=s3cret&x=1 LOADERWATCH_TOKEN=s3cret "?token=s3cret"'
    assert without_tokens(text) == 'open http://h:1/?token=…&x=1 LOADERWATCH_TOKEN=… "?token=…"'


def test_a_record_of_the_log_is_no_two() -> None:
    form = LogFormatter("%(levelname)s %(message)s")
    forged = logging.makeLogRecord(
        {"levelname": "INFO", "msg": "host %s \x1b[2J", "args": ("x\nERROR /?token=s3cret",)}
    )
    assert form.format(forged) == "INFO host x\n    ERROR /?token=… [2J"
    try:
        raise ValueError("\x1b[31m\nINFO all is well")
    except ValueError as error:
        failed = logging.makeLogRecord(
            {"levelname": "ERROR", "msg": "no", "exc_info": (ValueError, error, error.__traceback__)}
        )
    lines = form.format(failed).splitlines()
    assert [line for line in lines if not line.startswith("    ")] == ["ERROR no"]
    assert "\x1b" not in "".join(lines)
