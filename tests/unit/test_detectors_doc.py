"""docs/detectors.md has a heading for every code that a finding may carry, and for no other."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import loaderwatch.detect

DETECT = Path(loaderwatch.detect.__file__).parent


def codes() -> set[str]:
    """The codes in ``Finding(code=…)`` of the detectors' source; a folded code is another finding's."""
    found: set[str] = set()
    for path in DETECT.rglob("*.py"):
        name = ".".join(path.relative_to(DETECT).with_suffix("").parts)
        module = importlib.import_module(f"loaderwatch.detect.{name}")
        for node in ast.walk(ast.parse(path.read_text())):
            if not (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding"
            ):
                continue
            (code,) = (keyword.value for keyword in node.keywords if keyword.arg == "code")
            assert isinstance(code, ast.Name | ast.Constant), f"{path.name}:{node.lineno}: read this one, too"
            found.add(str(getattr(module, code.id) if isinstance(code, ast.Name) else code.value))
    return found


def test_one_heading_for_each_code(repo_root: Path) -> None:
    text = (repo_root / "docs" / "detectors.md").read_text()
    headings = re.findall(r"^## ([a-z]+(?:-[a-z]+)*)$", text, re.MULTILINE)
    assert sorted(headings) == sorted(codes())
