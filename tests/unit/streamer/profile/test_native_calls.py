"""The name of the native function that an instruction calls, from its position in the source."""

from __future__ import annotations

import ast
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from loaderwatch.streamer.profile import native_calls
from loaderwatch.streamer.profile.native_calls import Location, native_call

HEAD = """\
import numpy as np, torch.utils.data
import os.path as places
from PIL import (
    Image,  # pictures
    ImageOps as operations,
)
from torch import cat as join
from . import own
# import lmdb as np
"""


def called(tmp_path: Path, expression: str, head: str = HEAD, ends: str = "\n") -> str | None:
    """Return the name found for the outermost expression of a file's last statement."""
    source = head + expression + "\n"
    node = ast.parse(source).body[-1]
    assert isinstance(node, ast.Expr)
    assert node.value.end_lineno is not None
    assert node.value.end_col_offset is not None
    location = Location(
        node.value.lineno, node.value.end_lineno, node.value.col_offset, node.value.end_col_offset
    )
    file = tmp_path / "train.py"
    file.write_bytes(source.replace("\n", ends).encode())
    return native_call(os.getpid(), str(file), location, math.inf)


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("np.stack(parts)", "numpy.stack"),
        ("join([a, b], dim=0)", "torch.cat"),
        ("Image.open(path)", "PIL.Image.open"),
        ("operations.exif_transpose(x)", "PIL.ImageOps.exif_transpose"),
        ("places.exists(path)", "os.path.exists"),
        ("torch.cat(parts)", "torch.cat"),
        ("own.decode(x)", "own.decode"),
        ("self.archive.read(name)", "self.archive.read"),
        ("open(path, 'rb').read()", "read"),
        ("parts[0].copy()", "copy"),
        ("bilder.öffne('ä', 1)", "bilder.öffne"),
        ("np.stack(\n    [a,\n     b],\n)", "numpy.stack"),
        ("a + np.stack(b)", None),
        ("np.pi", None),
        ("(lambda x: x)(1)", None),
        ("parts[0](1)", None),
        ("x." + "a" * 200 + "()", None),
    ],
)
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_the_head_of_a_call_names_it(tmp_path: Path, expression: str, name: str | None, ends: str) -> None:
    assert called(tmp_path, expression, ends=ends) == name


def test_a_statement_is_no_call(tmp_path: Path) -> None:
    """The instruction that returns a value has the position of the whole statement."""
    file = tmp_path / "train.py"
    file.write_text("def f():\n    return len(x)\n", encoding="utf-8")
    assert native_call(os.getpid(), str(file), Location(2, 2, 4, 17), math.inf) is None
    assert native_call(os.getpid(), str(file), Location(2, 2, 11, 17), math.inf) == "len"
    assert native_call(os.getpid(), str(file), Location(2, 2, -1, -1), math.inf) is None
    assert native_call(os.getpid(), str(file), Location(2, 9, 11, 17), math.inf) is None


def test_a_file_that_cannot_be_read_names_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that would block or never end, and one that was edited meanwhile."""
    location = Location(1, 1, 0, 6)
    file = tmp_path / "train.py"
    file.write_text("len(x)\n", encoding="utf-8")
    assert native_call(os.getpid(), str(file), location, file.stat().st_mtime + 1) == "len"
    assert native_call(os.getpid(), str(file), location, file.stat().st_mtime - 1) is None
    os.mkfifo(tmp_path / "pipe.py")
    latin = tmp_path / "latin.py"
    latin.write_bytes("len('ü')".encode("latin-1"))
    for other in (
        tmp_path / "pipe.py",
        latin,
        tmp_path / "none.py",
        tmp_path,
        "/dev/zero",
        "<string>",
        "a\0b",
    ):
        assert native_call(os.getpid(), str(other), location, math.inf) is None
    monkeypatch.setattr(native_calls, "MOST_SOURCE", 3)
    assert native_call(os.getpid(), str(file), location, math.inf) is None


def test_a_relative_file_is_in_the_folder_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("len(x)\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert native_call(os.getpid(), "train.py", Location(1, 1, 0, 6), math.inf) == "len"


def test_a_system_without_these_flags_reads_files_all_the_same(tmp_path: Path) -> None:
    """As Windows: a fault here would end the sampler."""
    file = tmp_path / "train.py"
    file.write_text("len(x)\n", encoding="utf-8")
    code = f"""
import math, os
del os.O_NONBLOCK, os.O_NOCTTY, os.O_CLOEXEC
from loaderwatch.streamer.profile.native_calls import Location, native_call
print(native_call(os.getpid(), {str(file)!r}, Location(1, 1, 0, 6), math.inf))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("len\n", "")
