"""Imports point one way, and heavy modules stay where they belong."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S

PACKAGE = Path(__file__).resolve().parents[2] / "loaderwatch"

MAY_IMPORT: dict[str, set[str]] = {
    "": {"agent", "core"},  # the public names
    "__main__": {"cli"},
    "core": set(),
    "agent": {"core"},
    "frameworks": {"", "agent", "core"},
    "streamer": {"core"},
    "detect": {"core"},
    "advise": {"core", "detect"},
    "server": {"core", "detect", "advise"},
    "report": {"core", "detect", "advise", "server"},
    "demo": {"core", ""},
    "cli": {"core", "agent", "streamer", "detect", "advise", "server", "report", "demo", ""},
}
"""Which parts a part may import, besides itself. "" is the package's own ``__init__``."""

HEAVY: dict[str, set[str]] = {
    "torch": {"agent", "demo"},
    "pynvml": {"streamer/samplers"},
    "psutil": {"streamer/samplers"},
    "fastapi": {"server"},
    "starlette": {"server"},
    "uvicorn": {"server"},
    "duckdb": {"server"},
    "clickhouse_connect": {"server"},
    "apprise": {"server"},
    "plotly": {"server", "report"},
    "sklearn": {"demo"},
    "PIL": {"demo"},
    "lightning": {"frameworks"},
    "pytorch_lightning": {"frameworks"},
    "transformers": {"frameworks"},
    "accelerate": {"frameworks"},
}
"""The folders under which a module may be imported."""


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imported_names(path: Path) -> Iterator[str]:
    """Absolute names of what a module imports at run time; ``if TYPE_CHECKING`` is for type checkers."""
    tree = ast.parse(path.read_text())
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the direction; write the whole name"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    if len(relative.parts) > 1:
        return relative.parts[0]
    return "" if relative.stem == "__init__" else relative.stem


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    part = part_of(path)
    allowed = MAY_IMPORT[part] | {part}
    for name in imported_names(path):
        if name.partition(".")[0] != "loaderwatch":
            continue
        parts = name.split(".")
        target = parts[1] if len(parts) > 1 and (PACKAGE / parts[1]).is_dir() else ""
        if name in (
            "loaderwatch",
            "loaderwatch.__version__",
        ):  # where it lies and what it is: nothing of its parts
            continue
        assert target in allowed, f"{part or 'loaderwatch/__init__'} imports {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_heavy_modules_stay_where_they_belong(path: Path) -> None:
    folder = path.relative_to(PACKAGE).parent.as_posix()
    for name in imported_names(path):
        homes = HEAVY.get(name.partition(".")[0])
        assert homes is None or any(folder == home or folder.startswith(f"{home}/") for home in homes), (
            f"{path.relative_to(PACKAGE)} imports {name}, which belongs under {sorted(homes or ())}"
        )


def test_import_loaderwatch_loads_nothing_heavy() -> None:
    code = (
        "import sys, loaderwatch; "
        f"print(sorted({set(HEAVY) | {'numpy'}!r} & {{name.partition('.')[0] for name in sys.modules}}))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert shown.stdout.strip() == "[]"


def test_the_table_covers_every_part() -> None:
    assert {part_of(path) for path in modules()} <= set(MAY_IMPORT)
