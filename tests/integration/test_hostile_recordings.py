"""A stranger's recording: ``analyze`` and ``import`` either refuse it or work, in bounded memory."""

from __future__ import annotations

import lzma
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loaderwatch.cli import main
from loaderwatch.core import wire
from loaderwatch.core.errors import LoaderwatchError, WireError
from loaderwatch.core.wire import UNCOUNTED_BYTES, check_values
from loaderwatch.server.recordings.recording import BadRecording, Recording, pack, unpack, windows
from tests.fakes.feed import Feed
from tests.unit.core.test_wire_properties import BOMBS, anything, array, packed, places

EXAMPLES = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
HERE = Path("theirs.lwrec")
MORE_MEMORY = 160 * 2**20
"""Bytes that the worst recording may take beyond one of a real run."""


def recording() -> dict[str, Any]:
    """A small one as plain structures, a new copy of always the same."""
    built: dict[str, Any] = msgspec.msgpack.decode(_small())
    return built


@cache
def _small() -> bytes:
    feed = Feed("run-1")
    envelopes = [wire.encode(feed.envelope()), wire.encode(feed.envelope(final=True))]
    recorded = Recording(run_id="run-1", run_name="train.py", envelopes=envelopes, counted=[{}, {}])
    built = msgspec.to_builtins(recorded, builtin_types=(bytes,))
    rest = {"first_ns": 1, "newest_ns": 2, "received_ns": 2, "sequences": {"gpu01-1": [[1, 2]]}}
    return packed({**built, "rest": rest})


def with_raw(**raw: bytes) -> bytes:
    """The file of one whose fields are these bytes."""
    marks = {name: f"MARK-OF-{name}".encode() for name in raw}
    data = packed({**recording(), **marks})
    for name, mark in marks.items():
        data = data.replace(packed(mark), raw[name])
    return lzma.compress(data, preset=6)


def distinct(count: int, **facts: Any) -> bytes:
    """Envelopes, each of another stream or with other ranks."""
    feed = Feed("run-1")
    one = feed.envelope(steps=0)
    made = []
    for number in range(count):
        processes = [feed.process(rank=rank) for rank in range(number * 50, (number + 1) * 50)]
        stream = f"s{number}" if "streams" in facts else one.stream
        made.append(
            wire.encode(
                msgspec.structs.replace(
                    one, seq=number + 1, stream=stream, processes=processes if "ranks" in facts else []
                )
            )
        )
    return packed(made)


def envelope_of(kind: str) -> bytes:
    """One envelope, which a server would refuse as well."""
    return with_raw(envelopes=packed([BOMBS[kind]()]))


def claims(kind: bytes) -> bytes:
    """An envelope in which a value says that four billion follow."""
    return wire.encode(Feed("run-1").envelope()).replace(b"\xa6tables", b"\xa6tables" + kind + b"\xff" * 4, 1)


FILES: dict[str, Callable[[], bytes]] = {
    "zeros": lambda: lzma.compress(bytes(256 * 2**20), preset=1),
    "a file that claims to be whole": lambda: with_raw()[:-30],
    "rows that are counted": lambda: with_raw(counted=array(15 * 2**20, b"\x80")),
    "many rows that are counted": lambda: with_raw(counted=array(1_900_000, b"\x80")),
    "tables that are counted": lambda: with_raw(counted=array(660_000, b"\x81\xa0\xc4\x00")),
    "empty envelopes": lambda: with_raw(envelopes=array(7 * 2**20, b"\xc4\x00")),
    "envelopes that are claimed": lambda: with_raw(envelopes=b"\xdd\x7f\xff\xff\xff"),
    "streams": lambda: with_raw(
        rest=packed({**recording()["rest"], "sequences": {f"s{n}": [] for n in range(400_000)}})
    ),
    "tags": lambda: with_raw(
        rest=packed({**recording()["rest"], "labels": {"tags": ["x"] * 2_000_000}})
    ),
    "senders": lambda: with_raw(envelopes=distinct(5000, streams=True)),
    "ranks": lambda: with_raw(envelopes=distinct(400, ranks=True)),
    "claims of an array": lambda: with_raw(envelopes=packed([claims(b"\xdd")])),
    "claims of a map": lambda: with_raw(envelopes=packed([claims(b"\xdf")])),
    "claims of a column": lambda: with_raw(envelopes=packed([claims(b"\xc6")])),
    **{
        f"an envelope of {kind}": partial(envelope_of, kind)
        for kind in ("words", "empty words", "processes", "variables", "nesting", "what is not known")
    },
}  # fmt: skip


def plain() -> bytes:
    """A recording without any fault."""
    built = {**recording(), "rest": None}
    return pack(msgspec.convert(built, Recording))


IN_TURN = """
import sys
from loaderwatch.cli import main
command, folder, *files = sys.argv[1:]
for file in files:
    more = ["--data-dir", f"{folder}/{file.rpartition('/')[2]}.d"] if command == "import" else []
    code = main([command, file, *more])
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print("PEAK", code, int(peak.split()[1]) * 1024, flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory in /proc")
@pytest.mark.parametrize("command", ["analyze", "import"])
def test_bombs_are_refused_in_bounded_memory(command: str, tmp_path: Path) -> None:
    names = ["a recording", *FILES]
    files = []
    for number, made in enumerate((plain, *FILES.values())):
        files.append(tmp_path / f"{number}.lwrec")
        files[-1].write_bytes(made())
    done = subprocess.run(
        [sys.executable, "-c", IN_TURN, command, str(tmp_path), *map(str, files)],
        capture_output=True,
        text=True,
        env={**os.environ, "LOADERWATCH_DIR": str(tmp_path / "own")},
    )
    assert "Traceback" not in done.stderr
    said = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("PEAK ")]
    assert len(said) == len(names), done.stderr[-2000:]
    codes = dict(zip(names, (int(code) for code, _ in said), strict=True))
    peaks = dict(zip(names, (int(peak) for _, peak in said), strict=True))
    harmless = {"many rows that are counted", "tables that are counted"}
    assert {name for name, code in codes.items() if code == 0} <= {"a recording", *harmless}
    assert codes["a recording"] == 0
    assert max(peaks.values()) < peaks["a recording"] + MORE_MEMORY, peaks


def values(value: Any) -> int:
    """How many MessagePack values a structure is."""
    if isinstance(value, dict):
        return 1 + sum(values(key) + values(each) for key, each in value.items())
    return 1 + sum(map(values, value)) if isinstance(value, list) else 1


@EXAMPLES
@given(value=anything, cut=st.integers(1, 40))
def test_values_are_counted_as_the_decoder_makes_them(value: Any, cut: int) -> None:
    data, there = packed(value), values(value)
    check_values(data, there)
    with pytest.raises(WireError, match="more than"):
        check_values(data, there - 1)
    if len(data) > cut:
        with pytest.raises(WireError, match=r"cut off|more than"):
            check_values(data[:-cut], there)


@pytest.mark.parametrize("size", [0, 31, 32, 255, 256, 65_535, 65_536])
def test_every_kind_of_value_is_counted(size: int) -> None:
    many = min(size, 70_000)
    texts = ["x" * size, b"x" * size, msgspec.msgpack.Ext(3, b"x" * size)]
    for value in (*texts, [0] * many, {f"{n}": 0 for n in range(many)}):
        data = packed([value, 2**size if size < 60 else 1.5])
        check_values(data, 3 + values(value) - 1)
        with pytest.raises(WireError, match="cut off"):
            check_values(data[:-1], 10**6)


def test_a_long_envelope_of_long_columns_passes() -> None:
    envelope = Feed("run-1").envelope(steps=20_000)
    payload = wire.encode(envelope)
    assert len(payload) > UNCOUNTED_BYTES
    assert wire.row_count(wire.decode(payload).tables["steps"]) == 20_000


def spoiled(draw: st.DrawFn) -> bytes:
    """A file with one thing wrong: a value of the recording, of an envelope in it, or bytes anywhere."""
    built = recording()
    where = draw(st.sampled_from(("recording", "envelope", "bytes", "file")))
    if where == "recording":
        _put(draw, built)
    elif where == "envelope":
        inner = msgspec.msgpack.decode(built["envelopes"][0])
        _put(draw, inner)
        built["envelopes"][0] = packed(inner)
    data = bytearray(packed(built))
    if where == "bytes":
        for at in draw(st.lists(st.integers(0, len(data) - 1), min_size=1, max_size=4)):
            data[at] = draw(st.integers(0, 255))
    file = bytearray(lzma.compress(bytes(data), preset=0))
    if where == "file":
        file[draw(st.integers(0, len(file) - 1))] = draw(st.integers(0, 255))
    return bytes(file)


def _put(draw: st.DrawFn, structure: Any) -> None:
    *steps, last = draw(st.sampled_from(list(places(structure))))
    for step in steps:
        structure = structure[step]
    structure[last] = draw(anything)


files = st.composite(spoiled)()


@EXAMPLES
@given(file=files)
def test_what_loads_can_be_looked_at(file: bytes) -> None:
    """Whatever else goes wrong is an error of ours, with its reason."""
    with suppress(LoaderwatchError):
        for _ in windows(unpack(file, HERE)):
            pass


@pytest.mark.parametrize("command", ["analyze", "import"])
@settings(parent=EXAMPLES, max_examples=25)
@given(file=files)
def test_a_command_refuses_or_works(
    command: str, file: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("theirs")
    path = folder / "theirs.lwrec"
    path.write_bytes(file)
    more = ["--data-dir", str(folder / "data")] if command == "import" else []
    assert main([command, str(path), *more]) in (0, 1)


def test_the_reason_names_the_file() -> None:
    with pytest.raises(BadRecording, match=r"theirs\.lwrec is not a recording .*more than 2,000,000 values"):
        unpack(FILES["rows that are counted"](), HERE)
