"""Gets a run's profile from its server, its file or its recording."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final, get_args

import msgspec

from loaderwatch.cli.run_source import FiledRun, RecordedRun, RunSource, ServedRun
from loaderwatch.core.answers import Profile, ProfilePartName
from loaderwatch.core.client import ServerError
from loaderwatch.server.queries.profile import stored_profile
from loaderwatch.server.store.duckdb import DuckDBStore

PARTS: Final[tuple[ProfilePartName, ...]] = get_args(ProfilePartName)
_UNKNOWN_PATH: Final = 404


def profiles(
    source: RunSource,
    parts: tuple[ProfilePartName, ...],
    rank: int | None = None,
    attempt: int | None = None,
) -> list[Profile]:
    """Return the profile of each part; none if an older server or recording has no profiles.

    Args:
        source: the run.
        parts: the parts of the training.
        rank: only this rank; None: all.
        attempt: this attempt of the run; None: the newest. A recording is taken as a whole.

    Raises:
        ServerError, StoreError, WireError: the run cannot be read.
    """
    match source:
        case ServedRun():
            return _served(source, parts, rank, attempt)
        case FiledRun():
            return [
                stored_profile(source.store, source.run_id, part, rank, attempt=attempt) for part in parts
            ]
        case RecordedRun():
            return _recorded(source, parts, rank)


def heaviest_profile(
    source: RunSource,
    parts: tuple[ProfilePartName, ...] = PARTS,
    rank: int | None = None,
    attempt: int | None = None,
) -> Profile | None:
    """Return the profile of the part that lost the most time; None if there is none.

    It has the most samples, because samples are taken in proportion to the lost time. Arguments and errors
    are those of ``profiles``.
    """
    found = profiles(source, parts, rank, attempt)
    return max(found, key=lambda profile: (profile.samples, profile.unread), default=None)


def _served(
    source: ServedRun, parts: tuple[ProfilePartName, ...], rank: int | None, attempt: int | None
) -> list[Profile]:
    try:
        return [source.client.profile(source.run_id, part, rank, attempt) for part in parts]
    except ServerError as error:
        if error.status != _UNKNOWN_PATH:
            raise
        return []


def _recorded(source: RecordedRun, parts: tuple[ProfilePartName, ...], rank: int | None) -> list[Profile]:
    """Store the recording for a moment, so that it is read like a run in a store."""
    recorded = source.recorded
    envelopes = [msgspec.structs.replace(each, run_id=recorded.run_id) for each in recorded.decoded()]
    if not any("profile" in envelope.tables for envelope in envelopes):
        return []
    with (
        tempfile.TemporaryDirectory(prefix="loaderwatch-") as folder,
        closing(DuckDBStore(Path(folder))) as store,
    ):
        store.append(envelopes)
        return [stored_profile(store, recorded.run_id, part, rank) for part in parts]
