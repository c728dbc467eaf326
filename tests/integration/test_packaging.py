"""What people install: the wheel holds the page, and what the demo compiles."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel and a source distribution, built from this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
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


def test_an_installed_wheel_finds_its_page(dist: Path, tmp_path: Path) -> None:
    """In a Python that knows the wheel's own files and what it needs, and nothing of this checkout."""
    (wheel,) = dist.glob("*.whl")
    installed = tmp_path / "installed"
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", str(installed)]
    subprocess.run([*command, str(wheel)], check=True, capture_output=True, timeout=PATIENCE_S)
    code = """
import sys
sys.path += sys.argv[1:]
from loaderwatch.server import page
print(page.__file__)
print(page.find_web())
"""
    needed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    # -S reads no .pth file, so no editable install; -I ignores PYTHONPATH and the working directory.
    asked = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(installed), *needed],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert asked.returncode == 0, asked.stderr
    module, web = map(Path, asked.stdout.splitlines())
    assert module == installed / "loaderwatch" / "server" / "page.py"
    assert web == installed / "loaderwatch" / "web"
    assert (web / "index.html").read_bytes() == (ROOT / "web" / "index.html").read_bytes()


def test_what_the_dockerfile_copies_makes_a_wheel_with_the_page(tmp_path: Path) -> None:
    """And .dockerignore lets exactly that through."""
    lines = [line.split() for line in (ROOT / "Dockerfile").read_text().splitlines()]
    copies = [words[1:] for words in lines if words[:1] == ["COPY"] and not words[1].startswith("--from")]
    source = tmp_path / "src"
    source.mkdir()
    for *names, target in copies:
        for name in names:
            if (ROOT / name).is_dir():
                shutil.copytree(
                    ROOT / name, source / target, ignore=shutil.ignore_patterns("__pycache__", "*.so")
                )
            else:
                shutil.copy(ROOT / name, source / target)
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-cache-dir"]
    built = subprocess.run(
        [*command, "--wheel-dir", str(tmp_path), "."],
        cwd=source,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert "loaderwatch/web/index.html" in zipfile.ZipFile(wheel).namelist()
    let_through = (ROOT / ".dockerignore").read_text().split()
    assert {f"!{name}" for *names, _ in copies for name in names} == {
        word for word in let_through if word.startswith("!")
    }


def test_without_a_compiler_the_wheel_is_for_any_python(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    root = tmp_path / "source"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(".*", "node_modules", "tests", "*.so"))
    environ = {**os.environ, "CC": "no-such-compiler"}
    built = subprocess.run(command, cwd=root, env=environ, capture_output=True, text=True, timeout=PATIENCE_S)
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
    built = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=PATIENCE_S)
    assert built.returncode == 0, built.stderr
    (again,) = (tmp_path / "again").glob("*.whl")
    (first,) = dist.glob("*.whl")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(first).namelist())
