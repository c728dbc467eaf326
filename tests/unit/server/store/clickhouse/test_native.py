"""Blocks of ClickHouse's Native format, byte by byte and there and back."""

from __future__ import annotations

import numpy as np
import pytest

from loaderwatch.core.records import UNKNOWN
from loaderwatch.server.store.clickhouse.native import pack, unpack
from loaderwatch.server.store.sql.open_run import objects


def test_a_block_is_laid_out_as_the_format_says() -> None:
    block = pack({"a": np.array([1, UNKNOWN])}, {"a": "Nullable(Int64)"})
    kind = b"Nullable(Int64)"
    assert block[:4] == b"\x01\x02\x01a"
    assert block[4:20] == bytes([len(kind)]) + kind
    assert block[20:22] == b"\x00\x01"
    assert block[22:30] == (1).to_bytes(8, "little")


def test_what_is_packed_is_unpacked() -> None:
    long = "é" * 300  # its length takes two bytes
    columns = {
        "text": objects(["", long, b"\x00\xff"]),
        "whole": np.array([0, UNKNOWN, 2**62]),
        "part": np.array([np.nan, -1.5, np.inf]),
        "count": np.array([1, 2, 3]),
    }
    types = {"text": "String", "whole": "Nullable(Int64)", "part": "Nullable(Float64)", "count": "UInt64"}
    found = unpack(pack(columns, types) + pack(columns, types))
    assert found["text"].tolist() == [b"", long.encode(), b"\x00\xff"] * 2
    assert found["whole"].tolist() == [0, None, 2**62] * 2
    assert found["part"].tolist() == [None, -1.5, np.inf] * 2
    assert found["count"].tolist() == [1, 2, 3] * 2
    found["count"][0] = 9  # as DuckDB's answers, they may be written to
    assert unpack(b"") == {}


def test_an_answer_that_cannot_be_read_is_an_error() -> None:
    block = pack({"a": objects(["text"])}, {"a": "String"})
    with pytest.raises(ValueError, match="ends within"):
        unpack(block[:-1])
    with pytest.raises(ValueError, match="UUID"):
        unpack(b"\x01\x01\x01a\x04UUID" + bytes(16))
