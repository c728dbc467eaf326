"""The loops around the calls that led to the training loader, from the script's own source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loaderwatch.core.facts import Call
from loaderwatch.streamer.training_loops import MOST_BYTES, in_loops, polls

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


ASLEEP = "hrtimer_nanosleep"
POLLS = """\
import os, time


def wait_for(path, folder):
    while not os.path.exists(path):
        time.sleep(1)
    while True:
        for name in os.listdir(folder):
            time.sleep(1)
    time.sleep(1)


def serve(queue):
    while True:
        def one():
            time.sleep(1)
        time.sleep(1)
"""


@pytest.mark.parametrize(
    ("line", "told"),
    [(6, True), (9, False), (10, False), (17, False)],
    ids=["a look", "a loop in it", "behind it", "a function in it"],
)
def test_who_looks_for_something_again_and_again(tmp_path: Path, line: int, told: bool) -> None:
    """In a short loop of the innermost function, whoever called it."""
    path = tmp_path / "wait.py"
    path.write_text(POLLS)
    text = (
        f'Current thread 0x00007f2b28a4b740 (most recent call first):\n  File "{path}", line {line} in wait_for\n'
        '  File "/home/me/project/train.py", line 99 in <module>\n'
    )
    assert polls(text, os.getpid(), ASLEEP) is told
    assert not polls(text, os.getpid(), "futex_do_wait")


def test_a_long_loop_trains(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("while True:\n" + "    step()\n" * 20)
    text = f'Current thread 0x1 (most recent call first):\n  File "{path}", line 5 in <module>\n'
    assert not polls(text, 1, ASLEEP)


@pytest.mark.parametrize("text", ["", "Thread 0x1 (most recent call first):\n", "<no Python frame>"])
def test_a_stack_without_a_main_thread(text: str) -> None:
    assert not polls(text, 1, ASLEEP)
