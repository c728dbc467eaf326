"""Structs made from records (answers of the API, rows of the store), without listing each field twice."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


def from_records(kind: type[T], *records: Any, **more: Any) -> T:
    """Return a struct whose fields have the records' values of the same names.

    ``more`` gives fields that differ from the records. The first record that has a field counts. A record is
    an object, or a dictionary for a row of the store. Nanoseconds of a record become seconds: ``began_ns``
    gives ``began_at``, and ``iter_ns`` gives ``iter_s``.
    """
    for record in records:
        is_row = isinstance(record, dict)
        has: Any = tuple(record) if is_row else type(record)
        for field, source, is_ns in _sources(kind, has):
            if field not in more:
                value = record[source] if is_row else getattr(record, source)
                more[field] = value / 1e9 if is_ns and value is not None else value
    return kind(**more)


@lru_cache
def _sources(kind: type[msgspec.Struct], record: Hashable) -> list[tuple[str, str, bool]]:
    """Return each field of a struct that a record has, the record's name for it, and whether it is in ns.

    ``record`` is the record's type; for a row of the store, it is the names of the columns.
    """
    fields = getattr(record, "__dataclass_fields__", ())
    names = {*record} if isinstance(record, tuple) else {*dir(record), *fields}
    sources = []
    for field in kind.__struct_fields__:
        stem, _, unit = field.rpartition("_")
        in_ns = f"{stem}_ns"
        if field in names:
            sources.append((field, field, False))
        elif unit in ("at", "s") and in_ns in names:
            sources.append((field, in_ns, True))
    return sources
