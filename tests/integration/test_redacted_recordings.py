"""A recording that was redacted to be shown to others still says what is wrong."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from loaderwatch.cli import main

RECORDINGS = Path(__file__).parents[1] / "scenarios" / "recordings"
TELLING = ("s37_killed", "s39_full", "s47_one_rank")
"""With stacks, last words and standing ranks: what redaction changes."""


def analyzed(
    file: Path, capsys: pytest.CaptureFixture[str], *how: str
) -> tuple[list[dict[str, object]], str]:
    assert main(["analyze", str(file), "--json", *how]) == 0
    text = capsys.readouterr().out
    return json.loads(text), text


@pytest.mark.parametrize("name", TELLING)
def test_the_same_is_found_in_what_is_shown_to_others(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = next(RECORDINGS.glob(f"{name}*.lwrec"))
    open_found, open_text = analyzed(file, capsys)
    shared = tmp_path / "shared.lwrec"
    assert main(["export", str(file), str(shared), "--redact"]) == 0
    assert "are replaced" in capsys.readouterr().out
    found, text = analyzed(shared, capsys)
    keys = ("code", "scenario", "severity", "rank", "worker", "confidence")
    assert [[each[key] for key in keys] for each in found] == [
        [each[key] for key in keys] for each in open_found
    ]
    assert found
    for secret in ("/root", "/home", "/tmp", "scenarios", f"{name.partition('_')[2]}.py"):
        assert secret not in text
        assert secret.encode() not in lzma.decompress(shared.read_bytes()), secret
    assert "scenarios" in open_text or "scenarios" in str(lzma.decompress(file.read_bytes())), (
        "or nothing was replaced"
    )
    at_once, _ = analyzed(file, capsys, "--redact")
    assert [each["code"] for each in at_once] == [each["code"] for each in found]
