"""Compiles the agent's hot path when loaderwatch is built or installed.

It is compiled only on Linux, for CPython, with a compiler and Python's headers. Without it the package is
still complete: the same code exists in Python, and costs a training step some microseconds more.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("loaderwatch/agent/hot/_hot.c")
HEADER = "from loaderwatch.agent.hot.layout import c_header; print(c_header())"
FLAGS = ("-std=c11", "-O2", "-Wall", "-fwrapv", "-fPIC", "-fvisibility=hidden", "-shared")


class CompiledHotPath(BuildHookInterface[Any]):
    """Puts ``_hot`` beside its source, and into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds the wheel; an editable install is a wheel, too."""
        if self.target_name != "wheel":
            return
        target = (Path(self.root) / SOURCE).with_suffix(sysconfig.get_config_var("EXT_SUFFIX") or ".so")
        reason = compile_to(target, Path(self.root) / SOURCE)
        if reason:
            target.unlink(missing_ok=True)
            self.app.display_warning(f"the hot path is not compiled ({reason}); the one in Python is used")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"].append(target.relative_to(self.root).as_posix())


def compile_to(target: Path, source: Path) -> str | None:
    """Compile the hot path with this Python's headers and the layout; return why it failed, or None."""
    if sys.platform != "linux":
        return "only on Linux"
    if sys.implementation.name != "cpython":
        return "only for CPython"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "this Python has no interpreter lock"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    scratch = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        with tempfile.TemporaryDirectory() as folder:
            write_header(Path(folder), source)
            includes = (f"-I{sysconfig.get_path('include')}", f"-I{folder}")
            command = [*compiler, *FLAGS, *includes, os.fspath(source), "-o", os.fspath(scratch)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            return (done.stderr.strip().splitlines() or [f"{compiler[0]} ended with {done.returncode}"])[0]
        scratch.replace(target)  # a process that has the old one mapped keeps it
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    finally:
        scratch.unlink(missing_ok=True)
    return None


def write_header(folder: Path, source: Path) -> None:
    """Write the layout of the ring as C, asked of the package that the source is a part of.

    Raises:
        OSError: it cannot be written.
        subprocess.SubprocessError: the package cannot be asked.
    """
    root = source.resolve().parents[len(SOURCE.parts) - 1]
    # Nothing that was compiled before is loaded, nor another checkout's package.
    environment = {**os.environ, "LOADERWATCH_PLAIN": "1", "PYTHONPATH": os.fspath(root)}
    asked = subprocess.run(
        [sys.executable, "-c", HEADER],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    (folder / "_layout.h").write_text(asked.stdout)
