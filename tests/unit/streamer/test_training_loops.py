"""The loops around the calls that led to the training loader, from the script's own source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loaderwatch.core.facts import Call
from loaderwatch.streamer.training_loops import MOST_BYTES, feeds_model, in_loops, polls

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
    """From its head to the last line of its body. Lines after the loop or in its ``else`` are outside."""
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
    """In a short loop of the innermost function, with any caller."""
    path = tmp_path / "wait.py"
    path.write_text(POLLS)
    text = (
        "Current thread 0x00007f2b28a4b740 (most recent call first):\n"
        f'  File "{path}", line {line} in wait_for\n  File "/home/me/project/train.py", line 99 in <module>\n'
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


FEEDS = """\
def get_batch():
    x = load()
    return x


def train(model, optimizer, criterion, loader):
    x, y = get_batch()
    for micro in range(1000):
        out = model(x.to("cpu"))
        loss = criterion(out,
                         y)
        raw = read()
        x = decode(raw)
        buffer.copy_(raw)
        y["label"] = labels()
        loss.backward()
        log(loss)
        print(buffer)
        optimizer.step()


class Trainer:
    def fit(self):
        while True:
            self.model(self.batch).mean().backward()
            self.batch = self.fetch()
            self.lr = schedule()
            for self.batch.image in images():
                pass

    def loss(self, batch):
        weights = sample()
        return self.model(batch.image, weights)
"""


@pytest.mark.parametrize(
    ("function", "line", "called_at", "told"),
    [
        pytest.param("train", 7, 9, True, id="before the loop"),
        pytest.param("train", 9, 9, False, id="the call itself"),
        pytest.param("train", 11, 9, False, id="a loss over two lines"),
        pytest.param("train", 12, 9, True, id="through another statement"),
        pytest.param("train", 13, 9, True, id="behind the call"),
        pytest.param("train", 14, 9, False, id="filled in place, for others"),
        pytest.param("train", 14, 18, True, id="filled in place"),
        pytest.param("train", 15, 9, False, id="the target of a loss"),
        pytest.param("train", 16, 9, False, id="backward"),
        pytest.param("train", 17, 9, False, id="a log"),
        pytest.param("train", 19, 9, False, id="the optimizer"),
        pytest.param("get_batch", 2, 9, False, id="a function in which the model is not called"),
        pytest.param("fit", 26, 25, True, id="an attribute"),
        pytest.param("fit", 27, 25, False, id="another attribute"),
        pytest.param("fit", 28, 25, False, id="a field of what is handed over"),
        pytest.param("loss", 32, 33, True, id="a call that is returned"),
    ],
)
def test_statements_that_make_what_the_model_is_called_with(
    tmp_path: Path, function: str, line: int, called_at: int, told: bool
) -> None:
    path = tmp_path / "train.py"
    path.write_text(FEEDS)
    text = (
        "Thread 0x2 (most recent call first):\n"
        f'  File "{path}", line 13 in train\n'
        "Current thread 0x1 (most recent call first):\n"
        '  File "/usr/lib/python3.11/random.py", line 7 in shuffle\n'
        f'  File "{path}", line {line} in {function}\n'
    )
    of_train = function if function != "get_batch" else "train"
    model_calls = [Call(file=str(path), function=of_train, line=called_at)]
    assert feeds_model(text, os.getpid(), model_calls) is told
    assert not feeds_model(text, os.getpid(), []), "nobody saw the model called"
    assert not feeds_model("", os.getpid(), model_calls)


@pytest.mark.parametrize("text", [None, "for x in (", "x = '\0'"])
def test_a_file_in_which_nothing_feeds_the_model(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "odd.py"
    if text is not None:
        path.write_text(text)
    dump = f'Current thread 0x1 (most recent call first):\n  File "{path}", line 1 in <module>\n'
    assert not feeds_model(dump, os.getpid(), [Call(file=str(path), function="<module>", line=2)])


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("        if step < start:\n            continue\n        train(batch)\n", "skips"),
        ("        next(it)\n", "skips"),
        ("        pass\n", "nothing"),
        ("        ...\n", "nothing"),
        ("        total += batch.mean()\n", None),
        ("        if step < start:\n            total += 1\n        train(batch)\n", None),
        ("        for part in batch:\n            if part:\n                continue\n", None),
    ],
)
def test_what_the_body_of_a_loop_does(tmp_path: Path, body: str, told: str | None) -> None:
    script = tmp_path / "train.py"
    script.write_text("def main():\n    for step, batch in enumerate(loader):\n" + body)
    line = 3 if "next" in body else 2
    (found,) = in_loops([Call(file=str(script), function="main", line=line)], "/")
    assert found.body == told


RESUMES = """\
def main():
    for epoch in range(9):
        if epoch < start:
            continue
        train(loader)
        batches = iter(loader)
        while step(next(batches)):
            total += 1


def train(loader):
    for batch in loader:
        total += batch.mean()


def handed_on(loader):
    for batch in loader:
        yield batch


class Wrapper:
    def __iter__(self):
        return iter(self.loader)


def train_rest():
    for batch in bar(loader):
        if step < start:
            continue
        step(batch)
    for step in range(9):
        if step < start:
            continue
        step(next(batches))


def train_without_a_loop(loader):
    consume(loader)
"""


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        pytest.param((5, 12), [None, None], id="a loop over epochs skips, the one over batches does not"),
        pytest.param((5, 38), [None], id="a loop over epochs is the only one"),
        pytest.param((6,), [None], id="another loop in it takes the batches"),
        pytest.param((27, 17), ["skips", None], id="a progress bar hands the batches on"),
        pytest.param((34, 17), ["skips", None], id="next() of a generator"),
        pytest.param((27, 23), ["skips"], id="a wrapper hands the iterator on"),
        pytest.param((5, 27), [None, "skips"], id="the loop over batches skips"),
    ],
)
def test_a_body_is_told_of_the_loop_that_takes_the_batches(
    tmp_path: Path, lines: tuple[int, ...], told: list[str | None]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(RESUMES)
    found = in_loops([Call(file=str(script), function="f", line=line) for line in lines], "/")
    assert [call.body for call in found] == told


ONE_LINE = "for i in range(9): l = loss(m(x)); x = get(); y = next(it); l.backward()\n"


@pytest.mark.parametrize(
    ("inner", "column", "told"),
    [
        pytest.param("get", 28, True, id="it makes the input"),
        pytest.param("loss", 28, False, id="a loss"),
        pytest.param("generate", 28, True, id="any of the statements"),
        pytest.param("get", None, False, id="the column is not known"),
    ],
)
def test_several_statements_in_one_line(tmp_path: Path, inner: str, column: int | None, told: bool) -> None:
    path = tmp_path / "train.py"
    path.write_text(ONE_LINE)
    assert ONE_LINE[28:].startswith("m(x)")
    text = (
        "Current thread 0x1 (most recent call first):\n"
        f'  File "{path}", line 7 in {inner}\n  File "{path}", line 1 in <module>\n'
    )
    called = [Call(file=str(path), function="<module>", line=1, column=column)]
    assert feeds_model(text, os.getpid(), called) is told
