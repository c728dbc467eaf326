"""The proof: the training's own books, compared with the store and with what was counted as lost."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import duckdb

from loaderwatch.server.store.facts import unpack_event
from tests.fakes.own_faults import own_faults

Key = tuple[int, ...]

KEYS: Final = {
    "steps": ("rank", "loader", "epoch", "batch"),
    "epoch_begins": ("rank", "loader", "epoch"),
    "epoch_ends": ("rank", "loader", "epoch"),
    "fetches": ("rank", "loader", "worker", "ordinal"),
}
"""The key of a record in the books. Restarted ranks and each epoch's workers reuse keys: they are counted."""


@dataclass
class Books:
    """Records by table. Certain ones are in the rings; possible ones were in flight when the writer died."""

    certain: dict[str, Counter[Key]] = field(default_factory=lambda: defaultdict(Counter))
    possible: dict[str, Counter[Key]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, table: str, key: Key, *, certain: bool) -> None:
        """One record."""
        self.possible[table][key] += 1
        if certain:
            self.certain[table][key] += 1


@dataclass
class Stored:
    """What a run's file holds."""

    rows: dict[str, Counter[Key]]
    repeated: list[str]  # rows that are there twice, every column alike
    lost: Counter[tuple[str, int]]  # by cause and rank
    own_faults: dict[tuple[int, int], int]  # that our guard swallowed, by rank and pid

    @property
    def lost_in_all(self) -> int:
        """Records counted as lost."""
        return self.lost.total()


@dataclass
class Balance:
    """Books against store, by table."""

    certain: dict[str, int]
    stored: dict[str, int]
    missing: dict[str, Counter[int]]  # certain and not stored, by rank
    unheard_of: dict[str, list[Key]]  # stored and in no book
    repeated: list[str]
    lost: Counter[tuple[str, int]]

    @property
    def missing_in_all(self) -> int:
        """Records that are certain and not stored."""
        return sum(count.total() for count in self.missing.values())

    def faults(self) -> list[str]:
        """What contradicts "exactly once, or counted as lost"; empty when the books balance."""
        found = [f"twice in the store: {row}" for row in self.repeated]
        for table, keys in self.unheard_of.items():
            if keys:
                found.append(f"{table}: {len(keys)} stored more often than they happened: {sorted(keys)[:5]}")
        by_rank: Counter[int] = Counter()
        for counts in self.missing.values():
            by_rank.update(counts)
        anybodys = sum(count for (_, rank), count in self.lost.items() if rank < 0)
        for rank, count in by_rank.items():
            counted = sum(n for (_, r), n in self.lost.items() if r == rank)
            if count > counted + anybodys:
                found.append(
                    f"rank {rank}: {count} records are missing, {counted}+{anybodys} counted as lost"
                )
        if by_rank.total() > self.lost.total():
            found.append(f"{by_rank.total()} records are missing, {self.lost.total()} counted as lost")
        return found

    def __str__(self) -> str:
        tables = ", ".join(
            f"{table} {self.stored.get(table, 0)}/{count}" for table, count in self.certain.items()
        )
        return f"stored/certain: {tables}; missing {self.missing_in_all}; lost {dict(self.lost)}"


def read_books(folder: Path) -> Books:
    """Everything the training wrote down."""
    books = Books()
    delivered: dict[int, int] = {}  # by pid of who fetched: the last ordinal that a training process received
    for path in sorted(folder.glob("train-*.log")):
        _read_training(books, path, delivered)
    for path in sorted(folder.glob("fetch-*.log")):
        _read_fetches(books, path, delivered)
    return books


def _lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()]


def _read_training(books: Books, path: Path, delivered: dict[int, int]) -> None:
    rank = int(path.stem.split("-")[1])
    lines = _lines(path)
    over = any(words[0] in ("bye", "failed") for words in lines)
    # An iterator that is not asked for a batch is no epoch.
    asked = {words[1] for words in lines if words[0] == "ask"}
    step: Key | None = None  # delivered, and its step not known to be recorded
    for at, words in enumerate(lines):
        what = words[0]
        last = at == len(lines) - 1
        if what == "iter":
            has_begun = words[1] in asked
            books.add(
                "epoch_begins",
                (rank, 0, int(words[1])),
                certain=has_begun and (_answered(lines[at:]) or over),
            )
        elif what == "ask":
            # This next() writes the record of the step before, which surely exists once next() has returned.
            if step is not None:
                books.add("steps", step, certain=not last)
                step = None
        elif what == "got":
            epoch, batch, pid, ordinal = map(int, words[1:5])
            step = (rank, 0, epoch, batch)
            delivered[pid] = max(delivered.get(pid, -1), ordinal)
        elif what in ("end", "left"):
            if step is not None:
                books.add("steps", step, certain=True)
                step = None
            books.add("epoch_ends", (rank, 0, int(words[1])), certain=words[1] in asked)
        elif what == "failed":
            if step is not None:
                books.add("steps", step, certain=False)
            books.possible["epoch_ends"].update((rank, 0, int(w[1])) for w in lines if w[0] == "iter")
    if step is not None and not over:  # killed in a step or while leaving
        books.add("steps", step, certain=False)
    if not over:
        begun = [words[1] for words in lines if words[0] == "iter"]
        if begun:
            books.possible["epoch_ends"][rank, 0, int(begun[-1])] += 1


def _answered(lines: list[list[str]]) -> bool:
    """Whether the epoch that begins here has delivered something, or ended."""
    return any(words[0] in ("got", "end", "left") for words in lines)


def _read_fetches(books: Books, path: Path, delivered: dict[int, int]) -> None:
    rank, pid = map(int, path.stem.split("-")[1:3])
    lines = _lines(path)
    worker = int(lines[0][1]) if lines else -1
    for at, words in enumerate(lines):
        if words[0] == "fetched":
            ordinal = int(words[1])
            certain = at < len(lines) - 1 or delivered.get(pid, -1) >= ordinal
            books.add("fetches", (rank, 0, worker, ordinal), certain=certain)


def read_store(runs_dir: Path, run_id: str) -> Stored:
    """A run's file, read beside the server: from a copy, with what lies in its write-ahead log."""
    with tempfile.TemporaryDirectory() as scratch:
        for path in runs_dir.glob(f"{run_id}.duckdb*"):
            shutil.copy(path, scratch)
        (copy,) = Path(scratch).glob("*.duckdb")
        with duckdb.connect(str(copy)) as connection:
            return _read(connection)


def _read(connection: duckdb.DuckDBPyConnection) -> Stored:
    rows: dict[str, Counter[Key]] = {}
    repeated: list[str] = []
    for table, columns in KEYS.items():
        names = ", ".join(columns)
        rows[table] = Counter(
            {
                tuple(key): n
                for *key, n in connection.execute(
                    f"SELECT {names}, count(*) FROM {table} GROUP BY ALL"
                ).fetchall()
            }
        )
    for table in (*KEYS, "phases", "gpu_waits", "collections", "processes", "hosts", "gpus"):
        whole = connection.execute(
            f"SELECT count(*) AS n, t.* FROM {table} t GROUP BY ALL HAVING n > 1"
        ).fetchall()
        repeated += [f"{table} {row}" for row in whole[:5]]
    lost: Counter[tuple[str, int]] = Counter()
    events = [unpack_event(body) for (body,) in connection.execute("SELECT body FROM events").fetchall()]
    for event in events:
        for loss in event.losses:
            lost[loss.what, loss.rank] += loss.count
    return Stored(rows, repeated, lost, own_faults(events))


def balance(books: Books, stored: Stored) -> Balance:
    """Set one against the other."""
    missing: dict[str, Counter[int]] = {}
    unheard_of: dict[str, list[Key]] = {}
    for table in KEYS:
        there = stored.rows[table]
        missing[table] = Counter()
        for key, count in (books.certain[table] - there).items():
            missing[table][key[0]] += count
        unheard_of[table] = list((there - books.possible[table]).elements())
    return Balance(
        certain={table: books.certain[table].total() for table in KEYS},
        stored={table: stored.rows[table].total() for table in KEYS},
        missing=missing,
        unheard_of=unheard_of,
        repeated=stored.repeated,
        lost=stored.lost,
    )


def assert_balanced(folder: Path, runs_dir: Path, run_id: str, *, lost: Iterable[str] = ()) -> Balance:
    """Every certain record is stored exactly once, or counted as lost by a cause in ``lost``."""
    stored = read_store(runs_dir, run_id)
    result = balance(read_books(folder), stored)
    print(f"run {run_id}: {result}")
    assert result.certain["steps"] > 0, "the training recorded nothing: the comparison proves nothing"
    faults = result.faults()
    unexpected = {key: n for key, n in result.lost.items() if key[0] not in set(lost)}
    if unexpected:
        faults.append(f"counted as lost without a reason: {unexpected}")
    if stored.own_faults:
        faults.append(f"our guard swallowed faults of our own, by (rank, pid): {stored.own_faults}")
    assert not faults, "\n".join([*faults, str(result)])
    return result
