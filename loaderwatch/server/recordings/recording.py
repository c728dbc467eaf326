"""A run in one small file: its envelopes as they came, compressed. For tests, and for showing a run to somebody else.

An ``.lwrec`` file is an xz stream of one MessagePack object, see ``Recording``.
"""

from __future__ import annotations

import lzma
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from loaderwatch.core import wire
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.redact import KEY_BYTES, Redaction
from loaderwatch.core.wire import Envelope
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.live.window_builder import WindowBuilder

SUFFIX: Final = ".lwrec"
FORMAT: Final = 1
MOST_BYTES: Final = 512 * 2**20
"""Unpacked. A file of a stranger may claim anything."""
WINDOW_EVERY_NS: Final = 950_000_000
"""A window a second, as the live server makes them; envelopes come twice a second and a little early or late."""


class BadRecording(LoaderwatchError):
    """A file is not a recording that this version reads."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} is not a recording of a run: {why}")


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """The envelopes of one run, each as ``wire.encode`` made it, in the order in which the server took them in."""

    format: int = FORMAT
    run_id: str
    run_name: str
    hang_after_s: float | None = None  # what the server was told; None: the detectors' own limit
    envelopes: list[bytes]

    def decoded(self) -> Iterator[Envelope]:
        """The envelopes.

        Raises:
            WireError: one of them is malformed.
        """
        for payload in self.envelopes:
            yield wire.decode(payload)


def redacted(recording: Recording) -> Recording:
    """The recording as it can be shown to strangers. No two of them can be told to be of the same files."""
    redaction = Redaction(secrets.token_bytes(KEY_BYTES), sharing=True)
    name = redaction.run_id(recording.run_id)
    envelopes = [wire.encode(redaction.envelope(envelope)) for envelope in recording.decoded()]
    return msgspec.structs.replace(recording, run_id=name, run_name=name, envelopes=envelopes)


def pack(recording: Recording) -> bytes:
    """The bytes of the file."""
    return lzma.compress(msgspec.msgpack.encode(recording), preset=6)


def load(path: Path) -> Recording:
    """Read a file.

    Raises:
        BadRecording: it cannot be read, or holds something else.
    """
    try:
        return unpack(path.read_bytes(), path)
    except OSError as error:
        raise BadRecording(path, error.strerror or str(error)) from error


def unpack(packed: bytes, path: Path) -> Recording:
    """What ``pack`` made; ``path`` is where it comes from, for the message.

    Raises:
        BadRecording: it holds something else.
    """
    unpacker = lzma.LZMADecompressor(memlimit=MOST_BYTES)
    try:
        data = unpacker.decompress(packed, max_length=MOST_BYTES)
        if not unpacker.eof:
            raise BadRecording(path, f"it is cut off, or holds more than {MOST_BYTES >> 20} MiB")
        recording = msgspec.msgpack.decode(data, type=Recording)
    except (lzma.LZMAError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRecording(path, str(error)) from error
    if recording.format != FORMAT:
        raise BadRecording(path, f"its format is {recording.format}; this version reads {FORMAT}")
    if not recording.envelopes:
        raise BadRecording(path, "it holds no envelopes")
    return recording


def windows(recording: Recording) -> Iterator[tuple[RunWindow, bool]]:
    """Windows as the live server saw them, one a second, each with whether every process had ended by then.

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
