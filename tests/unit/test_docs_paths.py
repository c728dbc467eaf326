"""The paths and test files that the documents name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (ROOT, ROOT / "loaderwatch", ROOT / "loaderwatch" / "streamer")
"""Where a path in the text may begin."""


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "docs/reliability.md", "docs/architecture.md"])
def test_what_a_document_names_exists(document: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / document).read_text(), flags=re.DOTALL)
    paths = set(re.findall(r"`((?!LOADERWATCH_DIR)[\w.][\w.*-]*/[\w./*-]*)`", text))
    assert not {path for path in paths if not any(any(folder.glob(path)) for folder in FOLDERS)}
    tests = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert not set(re.findall(r"`(test_\w+\.py)", text)) - tests
