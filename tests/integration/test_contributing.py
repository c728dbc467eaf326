"""CONTRIBUTING.md's recipes, followed word by word on a copy of the repository."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
RECIPES = re.findall(r"^### (.+)$", TEXT, re.MULTILINE)
BLOCK = re.compile(r"^```(?P<about>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
ABOUT = re.compile(
    r'\w+ file=(?P<file>\S+)(?: (?P<where>after|before|instead)="(?P<line>.*)")?'
)  # in the line, quotes as \\"


@dataclass(frozen=True)
class Step:
    """A file to write, or lines to add beside a line of one."""

    file: str
    where: str | None
    line: str
    body: str

    def take(self, root: Path) -> None:
        path = root / self.file
        if self.where is None:
            assert not path.exists(), f"{self.file} is there already"
            path.write_text(self.body)
            return
        lines = path.read_text().splitlines(keepends=True)
        (number,) = [number for number, line in enumerate(lines) if line.rstrip("\n") == self.line]
        lines[number + (self.where == "after") : number + (self.where != "before")] = [self.body]
        path.write_text("".join(lines))


def recipe(name: str) -> tuple[list[Step], list[list[str]]]:
    """What the recipe changes, and the commands that show that it works."""
    text = TEXT.split(f"### {name}\n", 1)[1].split("\n### ", 1)[0]
    steps, commands = [], []
    for block in BLOCK.finditer(text):
        about = ABOUT.fullmatch(block["about"])
        if about is not None:
            steps.append(
                Step(about["file"], about["where"], (about["line"] or "").replace('\\"', '"'), block["body"])
            )
        else:
            assert block["about"] == "", block["about"]
            commands += [shlex.split(line) for line in block["body"].splitlines()]
    return steps, commands


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The repository's files as they are now, without what is built or installed."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, check=True, timeout=PATIENCE_S,
    )  # fmt: skip
    for name in listed.stdout.decode().rstrip("\0").split("\0"):
        source, target = ROOT / name, tmp_path / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    return tmp_path


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    program, *arguments = command
    assert program in ("pytest", "ruff", "python"), program
    return subprocess.run(
        [
            sys.executable,
            *([] if program == "python" else ["-m", program]),
            *arguments,
            *(["-q", "-p", "no:cacheprovider"] if program == "pytest" else []),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
    )


def test_there_are_three() -> None:
    assert len(RECIPES) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_ends_with_the_new_thing_working(copy: Path, name: str) -> None:
    steps, commands = recipe(name)
    assert steps
    assert commands
    tests = [step for step in steps if step.where is None and step.file.startswith("tests/")]
    for step in tests:
        step.take(copy)
    if name == "Add a rule":
        assert len({step.file for step in steps}) <= 4
    own = ["pytest", "--exitfirst", *(step.file for step in tests)]
    assert run(own, copy).returncode != 0, "its test passes without it"
    for step in steps:
        if step not in tests:
            step.take(copy)
    for command in [*commands, ["ruff", "check", "."], ["ruff", "format", "--check", "."]]:
        done = run(command, copy)
        assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout[-3000:]}\n{done.stderr[-1000:]}"
