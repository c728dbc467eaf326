"""A recording: a run in one small file, with its envelopes as they came, for tests and for showing a run to somebody else.

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
"""Most bytes of an unpacked recording, since a stranger's file may claim any size."""
MOST_RATIO: Final = 500
"""How many times as large as its file a recording may be. Those of real runs are 6 to 50 times as large, a bomb up to 7,000."""
SMALL_BYTES: Final = 16 * 2**20
"""A recording of this many bytes may have a file of any size: very even runs pack well."""
DICTIONARY_BYTES: Final = 128 * 2**20
"""Most memory that xz may take to unpack. Its highest preset asks for 65 MiB."""
MOST_ENVELOPES: Final = MOST_BYTES // 1024
"""An envelope has some kilobytes."""
MOST_COUNTED: Final = 2_000_000
"""Most MessagePack values in ``counted``. With two tables in each envelope it has five for each."""
_PACKED_AT_ONCE: Final = 2**20
"""Bytes that are compressed between two looks at the deadline, half a second's work."""
WINDOW_EVERY_NS: Final = 950_000_000
"""There is a window a second, as in the live server. The interval is a little shorter, because envelopes come early or late."""


class BadRecording(LoaderwatchError):
    """The file is not a recording that this version reads."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} is not a recording of a run: {why}")


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """The envelopes of one run, each as ``wire.encode`` made it, in the order in which the server took them in."""

    format: int = FORMAT
    run_id: str
    run_name: str
    hang_after_s: float | None = None  # the server's option; None: the detectors' own limit
    envelopes: list[bytes]
    counted: list[dict[str, bytes]] = []
    """For each envelope, by table: a byte for each row, 1 if it counts as training. Without it, that is found anew."""
    rest: Rest | None = (
        None  # what is known of the run besides; its sequences are empty unless all of it is here
    )

    def decoded(self) -> Iterator[Envelope]:
        """Yield the decoded envelopes, of which there is one at a time.

        Raises:
            WireError: an envelope is malformed, or there are more ranks, hosts or streams than a server takes.
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
    """The parts of a recording of which a stranger may make any number, not decoded yet."""

    envelopes: msgspec.Raw
    counted: msgspec.Raw = msgspec.Raw()
    rest: msgspec.Raw = msgspec.Raw()


_outline: Final = msgspec.msgpack.Decoder(_Outline).decode
_decode: Final = msgspec.msgpack.Decoder(Recording).decode


def redacted(recording: Recording) -> Recording:
    """Redact a recording for strangers, which leaves out alerts and labels. The short forms of files differ in each recording, so that two cannot be compared."""
    redaction = Redaction(secrets.token_bytes(KEY_BYTES), sharing=True)
    name = redaction.run_id(recording.run_id)
    envelopes = [wire.encode(redaction.envelope(envelope)) for envelope in recording.decoded()]
    return msgspec.structs.replace(recording, run_id=name, run_name=name, envelopes=envelopes, rest=None)


def pack(recording: Recording) -> bytes:
    """Return the bytes of the file.

    Raises:
        Stopped: the time of the question that is being answered is over.
    """
    data, packer, packed = msgspec.msgpack.encode(recording), lzma.LZMACompressor(preset=6), []
    for begin in range(0, len(data), _PACKED_AT_ONCE):
        deadline.check()
        packed.append(packer.compress(data[begin : begin + _PACKED_AT_ONCE]))
    return b"".join([*packed, packer.flush()])


def load(path: Path) -> Recording:
    """Read a file.

    Raises:
        BadRecording: the file cannot be read, or holds something else.
    """
    try:
        return unpack(path.read_bytes(), path)
    except OSError as error:
        raise BadRecording(path, error.strerror or str(error)) from error


def unpack(packed: bytes, path: Path) -> Recording:
    """Unpack what ``pack`` made; ``path`` is the file, for the error's message.

    Raises:
        BadRecording: the file holds something else.
    """
    most = min(MOST_BYTES, max(SMALL_BYTES, MOST_RATIO * len(packed)))
    unpacker = lzma.LZMADecompressor(memlimit=DICTIONARY_BYTES)
    try:
        data = unpacker.decompress(packed, max_length=most)
        if not unpacker.eof:
            raise BadRecording(path, f"it is cut off, or holds more than {most >> 20} MiB")
        outline = _outline(data)
        wire.check_values(memoryview(outline.envelopes), MOST_ENVELOPES)
        for beside, most_values in ((outline.counted, MOST_COUNTED), (outline.rest, wire.MAX_VALUES)):
            if memoryview(beside):  # older versions wrote none
                wire.check_values(memoryview(beside), most_values)
        recording = _decode(data)
    except (lzma.LZMAError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, WireError) as error:
        raise BadRecording(path, str(error)) from error
    if recording.format != FORMAT:
        raise BadRecording(path, f"its format is {recording.format}; this version reads {FORMAT}")
    if not recording.envelopes:
        raise BadRecording(path, "it holds no envelopes")
    return recording


def windows(recording: Recording) -> Iterator[tuple[RunWindow, bool]]:
    """Yield windows as the live server saw them, one a second, each with whether every process had ended by then.

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
    """Return the run as it stood at the recording's end.

    Raises:
        WireError: an envelope is malformed.
    """
    builder = WindowBuilder(recording.run_id)
    for envelope in recording.decoded():
        builder.add(envelope)
    return builder.window()
