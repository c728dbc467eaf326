"""A recording: a run's envelopes in one small file, for tests and for showing a run to somebody else.

An ``.lwrec`` file is an xz stream of one MessagePack object, a ``Recording``.
"""

from __future__ import annotations

import lzma
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from loaderwatch.core import wire
from loaderwatch.core.errors import LoaderwatchError, WireError
from loaderwatch.core.redact import KEY_BYTES, Redaction
from loaderwatch.core.wire import Envelope
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.access.quotas import HOSTS, LIVE_RANKS
from loaderwatch.server.store import deadline
from loaderwatch.server.store.protocol import Rest
from loaderwatch.server.window.builder import WindowBuilder

SUFFIX: Final = ".lwrec"
FORMAT: Final = 1
MOST_BYTES: Final = 512 * 2**20
"""Largest unpacked recording in bytes. A stranger's file may claim any size."""
MOST_RATIO: Final = 500
"""Largest ratio of a recording's size to its file's. Real runs have 6 to 50, a bomb up to 7,000."""
SMALL_BYTES: Final = 16 * 2**20
"""Up to this many bytes, the ratio is not limited: very even runs pack well."""
DICTIONARY_BYTES: Final = 128 * 2**20
"""Memory that xz may take to unpack, in bytes. Its highest preset needs 65 MiB."""
MOST_ENVELOPES: Final = MOST_BYTES // 1024
"""One envelope has a few kilobytes."""
MOST_COUNTED: Final = 2_000_000
"""Most MessagePack values in ``counted``. With two tables per envelope, it has five per envelope."""
_PACKED_AT_ONCE: Final = 2**20
"""Bytes that are compressed between two checks of the deadline: about half a second's work."""
WINDOW_EVERY_NS: Final = 950_000_000
"""One window a second, as in the live server. It is a bit shorter, as envelopes come early or late."""


class BadRecording(LoaderwatchError):
    """The file is not a recording that this version reads."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} is not a recording of a run: {why}")


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """The envelopes of one run, encoded by ``wire.encode``, in the order in which the server took them."""

    format: int = FORMAT
    run_id: str
    run_name: str
    hang_after_s: float | None = None  # the server's option; None: the detectors' own limit
    envelopes: list[bytes]
    counted: list[dict[str, bytes]] = []
    """For each envelope, by table: a byte per row, 1 if it counts as training. If missing, it is computed."""
    rest: Rest | None = None
    """What is known about the run besides. ``sequences`` is empty unless the whole run is here."""

    def decoded(self) -> Iterator[Envelope]:
        """Yield the decoded envelopes, one at a time.

        Raises:
            WireError: an envelope is malformed, or there are more ranks, hosts or streams than allowed.
        """
        ranks: set[int] = set()
        senders: set[tuple[str, str]] = set()
        for payload in self.envelopes:
            envelope = wire.decode(payload)
            ranks.update(process.rank for process in envelope.processes)
            senders.add((envelope.stream, envelope.host.name))
            if len(ranks) > LIVE_RANKS or len(senders) > HOSTS:
                raise WireError("(body)", f"more than {LIVE_RANKS:,} ranks, or {HOSTS:,} hosts")
            yield envelope


class _Outline(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a recording that may hold any number of values, not decoded yet."""

    envelopes: msgspec.Raw
    counted: msgspec.Raw = msgspec.Raw()
    rest: msgspec.Raw = msgspec.Raw()


_outline: Final = msgspec.msgpack.Decoder(_Outline).decode
_decode: Final = msgspec.msgpack.Decoder(Recording).decode


def redacted(recording: Recording) -> Recording:
    """Redact a recording for strangers, without alerts and labels.

    Short forms of file names differ between recordings, so that two cannot be compared.
    """
    redaction = Redaction(secrets.token_bytes(KEY_BYTES), sharing=True)
    name = redaction.run_id(recording.run_id)
    envelopes = [wire.encode(redaction.envelope(envelope)) for envelope in recording.decoded()]
    return msgspec.structs.replace(recording, run_id=name, run_name=name, envelopes=envelopes, rest=None)


def pack(recording: Recording) -> bytes:
    """Return the bytes of the file; raise Stopped if the time of the current request is over."""
    data, packer, pieces = msgspec.msgpack.encode(recording), lzma.LZMACompressor(preset=6), []
    for begin in range(0, len(data), _PACKED_AT_ONCE):
        deadline.check()
        pieces.append(packer.compress(data[begin : begin + _PACKED_AT_ONCE]))
    return b"".join([*pieces, packer.flush()])


def load(path: Path) -> Recording:
    """Read a file; raise BadRecording if it cannot be read, or holds something else."""
    try:
        return unpack(path.read_bytes(), path)
    except OSError as error:
        raise BadRecording(path, error.strerror or str(error)) from error


def unpack(packed: bytes, path: Path) -> Recording:
    """Unpack the bytes of a file; raise BadRecording, which names ``path``, if they are something else."""
    max_bytes = min(MOST_BYTES, max(SMALL_BYTES, MOST_RATIO * len(packed)))
    unpacker = lzma.LZMADecompressor(memlimit=DICTIONARY_BYTES)
    try:
        data = unpacker.decompress(packed, max_length=max_bytes)
        if not unpacker.eof:
            raise BadRecording(path, f"it is cut off, or holds more than {max_bytes >> 20} MiB")
        outline = _outline(data)
        wire.check_values(memoryview(outline.envelopes), MOST_ENVELOPES)
        for field, most_values in ((outline.counted, MOST_COUNTED), (outline.rest, wire.MAX_VALUES)):
            if memoryview(field):  # older versions wrote none
                wire.check_values(memoryview(field), most_values)
        recording = _decode(data)
    except (lzma.LZMAError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, WireError) as error:
        raise BadRecording(path, str(error)) from error
    if recording.format != FORMAT:
        raise BadRecording(path, f"its format is {recording.format}; this version reads {FORMAT}")
    if not recording.envelopes:
        raise BadRecording(path, "it holds no envelopes")
    return recording


def windows(recording: Recording) -> Iterator[tuple[RunWindow, bool]]:
    """Yield windows as the live server saw them, one a second, each with whether all processes had ended.

    Raises:
        WireError: an envelope is malformed.
    """
    builder = WindowBuilder(recording.run_id)
    newest_ns = shown_ns = 0
    unseen = False
    for envelope in recording.decoded():
        builder.add(envelope)
        newest_ns, unseen = max(newest_ns, envelope.made_ns), True
        if newest_ns >= shown_ns + WINDOW_EVERY_NS:
            shown_ns, unseen = newest_ns, False
            yield builder.window(), builder.facts.state != "live"
    if unseen:
        yield builder.window(), builder.facts.state != "live"


def last_window(recording: Recording) -> RunWindow:
    """Return the run's window at the recording's end; raise WireError if an envelope is malformed."""
    builder = WindowBuilder(recording.run_id)
    for envelope in recording.decoded():
        builder.add(envelope)
    return builder.window()
