"""Makes a recording of a played run that can be published: without names and paths of its machine."""

from __future__ import annotations

import os
import socket
import sys
import sysconfig
from pathlib import Path
from typing import Any

import msgspec

from loaderwatch.core import wire
from loaderwatch.server.recordings.recording import Recording
from tests.scenarios.play import HANG_AFTER_S, ROOT, Outcome

MOST_S = 120.0
"""Longer runs are cut: the detectors look back no further."""


def recording_of(outcome: Outcome, data_dir: Path) -> Recording:
    """The run as the server received it; ``data_dir`` is where it was played."""
    scrub = _Scrub(data_dir)
    envelopes = [scrub.envelope(payload) for payload in outcome.payloads]
    newest = max(envelope.made_ns for envelope in envelopes)
    kept = [envelope for envelope in envelopes if newest - envelope.made_ns < MOST_S * 1e9]
    return Recording(
        run_id=kept[0].run_id,
        run_name=kept[0].run_name,
        hang_after_s=HANG_AFTER_S,
        envelopes=[wire.encode(envelope) for envelope in kept],
    )


class _Scrub:
    """Replaces what names this machine and its user, the longest first."""

    def __init__(self, data_dir: Path) -> None:
        replaced = {
            str(data_dir): "/tmp/loaderwatch",
            sysconfig.get_paths()["purelib"]: "/opt/python/lib/python3/site-packages",
            sys.prefix: "/opt/python",
            sys.base_prefix + "/lib": "/opt/python/lib",
            str(ROOT): "/home/me/project",
            str(Path.home()) + "/": "/home/me/",
        }
        self._replaced = sorted(replaced.items(), key=lambda item: -len(item[0]))
        self._host = socket.gethostname()

    def envelope(self, payload: bytes) -> wire.Envelope:
        """The envelope, scrubbed."""
        plain = msgspec.msgpack.decode(payload)
        plain = self._plain(plain)
        plain["host"]["name"], plain["host"]["boot_id"], plain["stream"] = "host-1", None, "host-1"
        for process in plain.get("processes", ()):
            process["python"] = f"{sys.version_info.major}.{sys.version_info.minor}"
        return msgspec.convert(plain, wire.Envelope)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self._plain(item) for item in value]
        if isinstance(value, dict):
            return {key: self._plain(item) for key, item in value.items()}
        return value

    def _text(self, text: str) -> str:
        for old, new in self._replaced:
            text = text.replace(old, new)
        if len(self._host) > 3 and self._host not in ("localhost",):
            text = text.replace(self._host, "host-1")
        user = os.environ.get("USER", "")
        return text.replace(f"/{user}/", "/me/") if len(user) > 2 else text
