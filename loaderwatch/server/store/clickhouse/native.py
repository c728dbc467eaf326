"""ClickHouse's Native format: blocks of columns, which numpy packs and unpacks without a loop over values.

The client's own columns create a Python object per value. At a million rows a second, that fills a core.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.records import UNKNOWN

_FIXED: Final = {
    "Int64": "<i8", "UInt64": "<u8", "Int32": "<i4", "UInt32": "<u4", "Int16": "<i2", "UInt16": "<u2",
    "Int8": "<i1", "UInt8": "<u1", "Bool": "<u1", "Float64": "<f8", "Float32": "<f4",
}  # fmt: skip


def pack(columns: Mapping[str, NDArray[Any]], types: Mapping[str, str]) -> bytes:
    """Return one block. UNKNOWN and NaN become NULL if the type allows it; text and bytes are objects."""
    rows = len(next(iter(columns.values())))
    parts = [_number(len(columns)), _number(rows)]
    for name, values in columns.items():
        kind = types[name]
        parts += [_text(name.encode()), _text(kind.encode())]
        if kind.startswith("Nullable("):
            kind = kind[9:-1]
            unknown = np.isnan(values) if values.dtype.kind == "f" else values == UNKNOWN
            parts.append(unknown.astype("<u1").tobytes())
        if kind == "String":
            packed: dict[Any, bytes] = {}  # most text columns repeat a few values
            for value in set(values.tolist()):
                packed[value] = _text(value.encode() if isinstance(value, str) else value)
            parts += map(packed.__getitem__, values.tolist())
        else:
            parts.append(values.astype(_FIXED[kind], copy=False).tobytes())
    return b"".join(parts)


def _number(value: int) -> bytes:
    """Return an unsigned integer as a varint: as few bytes as possible, with seven bits in each."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _text(value: bytes) -> bytes:
    return _number(len(value)) + value


def unpack(data: bytes) -> dict[str, NDArray[Any]]:
    """Return the columns of an answer, with all blocks joined.

    Nullable columns are masked arrays; text and bytes are bytes objects.

    Raises:
        ValueError: a column has a type that no query here asks for, or the answer ends within a block.
    """
    parts_by_name: dict[str, list[NDArray[Any]]] = {}
    for name, values in _Reader(data).blocks():
        parts_by_name.setdefault(name, []).append(values)
    return {name: _joined(parts) for name, parts in parts_by_name.items()}


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    if len(parts) == 1:
        return parts[0]
    values = np.concatenate([np.ma.getdata(part) for part in parts])
    if not any(isinstance(part, np.ma.MaskedArray) for part in parts):
        return values
    masked: NDArray[Any] = np.ma.array(
        values, mask=np.concatenate([np.ma.getmaskarray(part) for part in parts])
    )
    return masked


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = bytearray(data)  # writable, so arrays over it can be written to, as DuckDB's can
        self._at = 0

    def blocks(self) -> Iterator[tuple[str, NDArray[Any]]]:
        while self._at < len(self._data):
            columns, rows = self._number(), self._number()
            for _ in range(columns):
                name, kind = self._text().decode(), self._text().decode()
                yield name, self._column(kind, rows)

    def _column(self, kind: str, rows: int) -> NDArray[Any]:
        if kind.startswith("Nullable("):
            unknown = self._fixed("<u1", rows).astype(bool)
            masked: NDArray[Any] = np.ma.array(self._column(kind[9:-1], rows), mask=unknown)
            return masked
        if kind == "Nothing":  # a NULL without a type
            return self._fixed("<u1", rows).astype("<i8")
        if kind == "String":
            texts = np.empty(rows, dtype=object)
            for index in range(rows):
                texts[index] = self._text()
            return texts
        if kind not in _FIXED:
            raise ValueError(f"ClickHouse answered with a column of the type {kind}, which is not read here")
        return self._fixed(_FIXED[kind], rows)

    def _fixed(self, dtype: str, rows: int) -> NDArray[Any]:
        values = np.frombuffer(self._data, dtype=dtype, count=rows, offset=self._at)
        self._at += values.nbytes
        return values

    def _number(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _text(self) -> bytes:
        size = self._number()
        if self._at + size > len(self._data):
            raise ValueError("ClickHouse's answer ends within a block")
        value = bytes(self._data[self._at : self._at + size])
        self._at += size
        return value
