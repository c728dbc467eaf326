"""What people install: the wheel holds the page, and what the demo compiles."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel and a source distribution, built from this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert built.returncode == 0, built.stderr
    return folder


def test_the_wheel_holds_the_page_and_the_stand_in(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    page = {f"loaderwatch/{path.relative_to(ROOT)}" for path in (ROOT / "web").rglob("*") if path.is_file()}
    assert page
    assert page <= names
    assert {"loaderwatch/py.typed", "loaderwatch/demo/nvml_stand_in.c", "loaderwatch/demo/train.py"} <= names
    assert not [name for name in names if name.startswith("tests/")]


def test_without_a_compiler_the_wheel_is_for_any_python(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    root = tmp_path / "source"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(".*", "node_modules", "tests", "*.so"))
    environ = {**os.environ, "CC": "no-such-compiler"}
    built = subprocess.run(command, cwd=root, env=environ, capture_output=True, text=True, timeout=120)
    assert built.returncode == 0, built.stderr
    assert "the hot path is not compiled" in built.stdout + built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")]


def test_a_wheel_can_be_made_from_the_source_distribution(dist: Path, tmp_path: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "again")]
    built = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=120)
    assert built.returncode == 0, built.stderr
    (again,) = (tmp_path / "again").glob("*.whl")
    (first,) = dist.glob("*.whl")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(first).namelist())
