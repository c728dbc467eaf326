"""The loops around the calls that led to the training loader, from the script's own source."""

from __future__ import annotations

from pathlib import Path

import pytest

from loaderwatch.core.facts import Call
from loaderwatch.streamer.training_loops import MOST_BYTES, in_loops

SCRIPT = """\
def train_epoch(loader):
    for batch in loader:
        step(batch)


def main(loader):
    for fold in range(2):
        while not done():
            try:
                train_epoch(loader)
            except StopIteration:
                continue
            validate()
        else:
            report()
    serve()


main(make())
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A training script."""
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def calls(file: str) -> list[Call]:
    """From where its loader is iterated, as the agent notes it."""
    places = (("<module>", 19), ("main", 10), ("train_epoch", 2))
    return [Call(file=file, function=function, line=line) for function, line in places]


def test_the_outermost_loop_of_each_function(script: Path) -> None:
    """From its head to the last line of its body: what follows the loop, or stands in its ``else``, is past it."""
    found = in_loops(calls(str(script)), "/")
    assert [(call.function, call.line, call.loop) for call in found] == [
        ("main", 10, (7, 15)),
        ("train_epoch", 2, (2, 3)),
    ]


def test_a_name_relative_to_where_the_process_was_started(script: Path) -> None:
    found = in_loops(calls("train.py"), str(script.parent))
    assert [call.file for call in found] == ["train.py", "train.py"], "as its stacks name it"


@pytest.mark.parametrize("text", [None, "for x in (", "x = '\0'", "#" * (MOST_BYTES + 1)])
def test_a_file_that_tells_nothing(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "odd.py"
    if text is not None:
        path.write_text(text)
    assert in_loops(calls(str(path)), "/") == []
