"""The compiled hot path under sanitizers: no foreign memory access, no undefined arithmetic."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from hatch_build import write_header
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
CHECKED = "address,undefined"
TESTS = (
    "tests/unit/agent/test_hot.py",
    "tests/unit/agent/hot/test_device_clock.py",
    "tests/integration/test_agent_cuda_training.py",
    "tests/integration/test_agent_steps.py",
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def _library(name: str) -> str:
    """Where the compiler has it; it answers with the bare name when it has none."""
    said = subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    path = said.stdout.strip()
    if not Path(path).is_absolute():
        pytest.skip(f"gcc has no {name}")
    return path


def test_the_hot_path_under_sanitizers(tmp_path: Path) -> None:
    include = Path(sysconfig.get_path("include"))
    if sys.platform != "linux" or shutil.which("gcc") is None or not (include / "Python.h").exists():
        pytest.skip("needs Linux, gcc and the headers of Python")
    preload = f"{_library('libasan.so')} {_library('libubsan.so')}"
    for part in ("loaderwatch", "tests", "pyproject.toml"):
        source = ROOT / part
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / part)
    agent = tmp_path / "loaderwatch" / "agent" / "hot"
    for built in agent.glob("_hot*.so"):
        built.unlink()
    target = agent / f"_hot{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = ["gcc", "-std=c11", "-g", "-O1", f"-fsanitize={CHECKED}", "-fno-omit-frame-pointer", "-fwrapv"]
    write_header(tmp_path, agent / "_hot.c")
    command += [
        "-fPIC",
        "-shared",
        f"-I{include}",
        f"-I{tmp_path}",
        os.fspath(agent / "_hot.c"),
        "-o",
        os.fspath(target),
    ]
    subprocess.run(command, check=True, timeout=PATIENCE_S)
    environ = {
        **os.environ,
        "PYTHONPATH": os.fspath(tmp_path),
        "LD_PRELOAD": preload,
        "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1",  # Python leaves memory to the end of the process
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }
    loaded = "import loaderwatch.agent.hot._hot as hot; print(hot.__file__)"
    told = subprocess.run(
        [sys.executable, "-c", loaded],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert told.stdout.strip() == os.fspath(target), told.stderr
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-5000:]
    assert " passed" in ran.stdout
