"""docs/security.md names tests as proof: they are there."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHORT = {"it/": "tests/integration/", "u/": "tests/unit/"}


def test_every_proof_is_a_test_that_exists() -> None:
    named = 0
    for line in (ROOT / "docs" / "security.md").read_text().splitlines():
        file = ""
        for path, name in re.findall(r"`((?:it|u|tests)/[\w/]*(?:\.py)?)?(?:::)?(test_[\w*]+|)`", line):
            if path:
                for short, long in SHORT.items():
                    path = long + path.removeprefix(short) if path.startswith(short) else path
                file = path
                assert (ROOT / file).exists(), f"{file}, named in {line[:60]}"
            if name:
                files = [ROOT / file] if file else [*(ROOT / "tests").rglob("test_*.py")]
                named += 1
                assert any(
                    fnmatch.filter(re.findall(r"def (test_\w+)", each.read_text()), name)
                    for each in files
                    if each.is_file()
                ), f"{name} is not in {file or 'any test'}"
    assert named > 25


def test_no_older_parser_of_requests_is_accepted() -> None:
    """h11 before 0.16 took any two bytes for the end of a chunk (CVE-2025-43859)."""
    assert '"h11>=0.16"' in (ROOT / "pyproject.toml").read_text()
    pinned = re.search(r"^h11==0\.(\d+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    assert int(pinned[1]) >= 16
